package gateway

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/corral-exec/corral"
)

var serviceName = attribute.String("service.name", "corral")

// Tracing is what the standard variables of OpenTelemetry ask for: spans are
// sent by OTLP over HTTP if OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and OTEL_SDK_DISABLED and
// OTEL_TRACES_EXPORTER do not say otherwise. Everything else (headers, the
// sampler, OTEL_SERVICE_NAME, …) is read as the specification has it. The
// provider is nil if there is nothing to do. stop sends what has not been sent.
func Tracing(ctx context.Context) (_ trace.TracerProvider, stop func(context.Context) error, err error) {
	off := func(context.Context) error { return nil }
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	switch {
	case os.Getenv("OTEL_SDK_DISABLED") == "true", exporter == "none", exporter == "" && endpoint == "":
		return nil, off, nil
	case exporter != "" && exporter != "otlp":
		return nil, off, corral.Errorf(corral.ErrInvalid, "use otlp or none", "OTEL_TRACES_EXPORTER is %q", exporter)
	}
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, off, fmt.Errorf("cannot export traces: %w", err)
	}
	// Later detectors win: OTEL_SERVICE_NAME over ours.
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(serviceName), resource.WithFromEnv())
	if err != nil {
		return nil, off, fmt.Errorf("cannot describe this program in traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(res))
	return provider, provider.Shutdown, nil
}
