"""`python -m wattveil` is `wattveil`."""

from wattveil.cli import app

if __name__ == "__main__":
    app(prog_name="wattveil")
