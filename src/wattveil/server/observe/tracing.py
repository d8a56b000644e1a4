"""OpenTelemetry: one span per request, if its environment variables are set.

The variables are those of the OpenTelemetry specification: `OTEL_EXPORTER_OTLP_ENDPOINT` turns
tracing on, the exporter and the sampler read the others. A span has what the log has: method, route
template, status and identifier of the request.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from wattveil.errors import MissingExtraError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_SERVER_ERROR = 500


class RequestTracer(AbstractContextManager["RequestTracer"]):
    """Sends a span for each request to a collector."""

    def __init__(self) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - extra
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtraError("OpenTelemetry", "otel") from error
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "wattveil"}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("wattveil")

    @classmethod
    def from_environment(cls) -> "RequestTracer | None":
        """Return a tracer; None unless an endpoint is set and the SDK is not disabled."""
        disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        wanted = any(os.environ.get(name) for name in _ENDPOINTS)
        return cls() if wanted and not disabled else None

    def record(
        self,
        *,
        started_ns: int,
        ended_ns: int,
        name: str,
        parent: str | None,
        status: int,
        attributes: Mapping[str, Any],
    ) -> None:
        """Record the span of a request that was answered; ``parent`` is a `traceparent` header."""
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - extra
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        carrier = {} if parent is None else {"traceparent": parent}
        span = self._tracer.start_span(
            name,
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=SpanKind.SERVER,
            attributes=dict(attributes),
            start_time=started_ns,
        )
        if status >= _SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)

    def close(self) -> None:
        """Send what waits, and stop."""
        self._provider.shutdown()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
