package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/registry"

	"github.com/corral-exec/corral"
)

// The texts are those of engines of several ages.
func TestPullErrors(t *testing.T) {
	for _, tt := range []struct {
		text string
		is   error // as the client classifies the status; nil: not at all
		kind error
		what string
		hint string
	}{
		{`Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com on 192.0.2.1:53: no such host`, cerrdefs.ErrInternal, corral.ErrUnavailable, "cannot be reached", "network"},
		{`Get "https://registry.example.com/v2/": dial tcp 192.0.2.7:443: connect: connection refused`, nil, corral.ErrUnavailable, "cannot be reached", "network"},
		{`Get "https://registry.example.com/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`, cerrdefs.ErrInternal, corral.ErrUnavailable, "cannot be reached", "network"},
		{`Get "https://registry.example.com/v2/": x509: certificate signed by unknown authority`, cerrdefs.ErrInternal, corral.ErrUnavailable, "not trusted", "registry.example.com"},
		{`Get "https://registry.example.com/v2/": http: server gave HTTP response to HTTPS client`, cerrdefs.ErrInternal, corral.ErrUnavailable, "TLS", "insecure-registries"},
		{`pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied`, cerrdefs.ErrNotFound, corral.ErrDenied, "refuses access", "docker login registry.example.com"},
		{`Head "https://registry.example.com/v2/x/manifests/1": unauthorized: authentication required`, cerrdefs.ErrInternal, corral.ErrDenied, "refuses access", "docker login"},
		{`nothing known`, cerrdefs.ErrUnauthenticated, corral.ErrDenied, "refuses access", "docker login"},
		{`manifest for registry.example.com/x:1 not found: manifest unknown: manifest unknown`, cerrdefs.ErrNotFound, corral.ErrInvalid, "no such image", "name and tag"},
		{`manifest for registry.example.com/certificates:1 not found: manifest unknown: manifest unknown`, cerrdefs.ErrNotFound, corral.ErrInvalid, "no such image", "name and tag"},
		{`nothing known`, cerrdefs.ErrNotFound, corral.ErrInvalid, "no such image", "name and tag"},
		{`no matching manifest for linux/amd64 in the manifest list entries`, nil, corral.ErrInvalid, "platform", "architecture"},
		{`toomanyrequests: You have reached your pull rate limit.`, nil, corral.ErrUnavailable, "for now", "later"},
		{`write /var/lib/docker/tmp/x: no space left on device`, nil, corral.ErrUnavailable, "disk is full", "prune"},
		{`something new`, nil, corral.ErrUnavailable, "something new", ""},
	} {
		status := errors.New(tt.text)
		if tt.is != nil {
			status = fmt.Errorf("%s: %w", tt.text, tt.is)
		}
		code := map[error]int{cerrdefs.ErrUnauthenticated: 401, cerrdefs.ErrNotFound: 404}[tt.is]
		for _, how := range []struct {
			name string
			pull func(context.Context) (io.ReadCloser, error)
		}{
			{"status", func(context.Context) (io.ReadCloser, error) { return nil, status }},
			{"stream", func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(fmt.Sprintf("{\"status\":\"Pulling\"}\r\n{\"errorDetail\":{\"code\":%d,\"message\":%q},\"error\":%[2]q}\r\n", code, tt.text))), nil
			}},
		} {
			s, f := fakeStore(t)
			f.pull = how.pull
			_, err := s.Ensure(t.Context(), "registry.example.com/x:1", nil)
			if !errors.Is(err, tt.kind) || !strings.HasPrefix(err.Error(), "cannot pull image registry.example.com/x:1: ") || !strings.Contains(err.Error(), tt.what) {
				t.Errorf("%s by %s: %v", tt.text, how.name, err)
			}
			if hint := corral.Hint(err); !strings.Contains(hint, tt.hint) || strings.Contains(hint, "{") {
				t.Errorf("%s by %s: hint %q", tt.text, how.name, hint)
			}
		}
	}
}

type brokenBody struct{ io.Reader }

func (brokenBody) Close() error { return nil }

func TestPullBreaksOff(t *testing.T) {
	s, f := fakeStore(t)
	f.pull = func(context.Context) (io.ReadCloser, error) {
		return brokenBody{io.MultiReader(strings.NewReader("{\"status\":\"Pulling\"}\n"), errorReader{io.ErrUnexpectedEOF})}, nil
	}
	if _, err := s.Ensure(t.Context(), "alpine:3", nil); !errors.Is(err, corral.ErrUnavailable) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("broken off: %v", err)
	}
	f.pull = func(context.Context) (io.ReadCloser, error) { return brokenBody{strings.NewReader("")}, nil }
	if _, err := s.Ensure(t.Context(), "alpine:3", nil); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("ended without the image: %v", err)
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

func TestPullCancelled(t *testing.T) {
	s, f := fakeStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.pull = func(ctx context.Context) (io.ReadCloser, error) {
		cancel()
		return brokenBody{errorReader{ctx.Err()}}, nil
	}
	_, err := s.Ensure(ctx, "alpine:3", nil)
	if want := "cannot pull image alpine:3: context canceled"; !errors.Is(err, context.Canceled) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestPullCredentials(t *testing.T) {
	s, f := fakeStore(t)
	asked := ""
	s.Credentials = func(_ context.Context, domain string) (registry.AuthConfig, error) {
		asked = domain
		return registry.AuthConfig{Username: "user", Password: "secret"}, nil
	}
	if _, err := s.Ensure(t.Context(), "registry.example.com:5000/x:1", nil); err != nil {
		t.Fatal(err)
	}
	sent, err := registry.DecodeAuthConfig(f.pulls[0].RegistryAuth)
	if err != nil || sent.Password != "secret" || asked != "registry.example.com:5000" {
		t.Errorf("sent %+v, %v, asked for %q", sent, err, asked)
	}

	s.Credentials = func(context.Context, string) (registry.AuthConfig, error) {
		return registry.AuthConfig{}, errors.New("no key ring")
	}
	warning := ""
	if _, err := s.Ensure(t.Context(), "alpine:3", func(e Event) {
		if e.Warning {
			warning = e.Message
		}
	}); err != nil || !strings.Contains(warning, "no key ring") || f.pulls[1].RegistryAuth != "" {
		t.Errorf("%v, warning %q", err, warning)
	}
}
