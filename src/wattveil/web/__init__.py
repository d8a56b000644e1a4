"""PUBLIC. Pages: one template environment, one stylesheet, one chart style."""
