package images

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
)

// pull has the engine fetch ref from its registry.
func (s Store) pull(ctx context.Context, ref string, report Progress) (Image, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return Image{}, err // own has parsed it already
	}
	auth, err := s.auth(ctx, reference.Domain(named))
	if err != nil {
		if ctx.Err() != nil {
			return Image{}, pullError(ctx, named, err)
		}
		// Most images are public: a broken helper must not keep them away.
		report(Event{Phase: PhasePull, Warning: true, Message: clean(fmt.Sprintf("pulling %s without credentials: %v", ref, err), maxText)})
	}
	report(Event{Phase: PhasePull, Message: "pulling " + ref})
	err = s.Engine.Pull(ctx, named, auth, func(t Transfer) {
		report(Event{Phase: PhasePull, Item: clean(t.Item, maxItem), Message: clean(t.Status, maxText), Current: t.Current, Total: t.Total})
	})
	if err != nil {
		return Image{}, pullError(ctx, named, err)
	}
	img, found, err := s.lookup(ctx, ref)
	if err == nil && !found {
		err = corral.Errorf(corral.ErrUnavailable, "try again", "image %s was pulled, and the engine does not have it", ref)
	}
	return img, err
}

// auth has the credentials for a registry; the zero value: none.
func (s Store) auth(ctx context.Context, domain string) (registry.AuthConfig, error) {
	credentials := s.Credentials
	if credentials == nil {
		credentials = DockerCredentials("")
	}
	return credentials(ctx, domain)
}

// pullCauses tell why a pull failed. Engines of all ages report it as text,
// with a status that depends on how far they had come, so the text decides;
// the first that fits.
var pullCauses = []struct {
	text []string // lower case, any of them
	kind error
	what string
	hint string // with {registry} for its domain
}{
	{[]string{"x509:"}, corral.ErrUnavailable, "the certificate of the registry is not trusted",
		"add the authority of {registry} to those the engine trusts"},
	{[]string{"server gave http response to https client"}, corral.ErrUnavailable, "the registry does not speak TLS",
		"list {registry} under insecure-registries of the engine if that is intended"},
	{[]string{"dial tcp", "no such host", "connection refused", "connection reset", "i/o timeout", "network is unreachable", "no route to host", "tls handshake timeout", "client.timeout exceeded", "proxyconnect", "temporary failure in name resolution", "request canceled while waiting"},
		corral.ErrUnavailable, "the registry cannot be reached",
		"check the network and proxy of the machine the engine runs on; without a registry, use the image " + Default + ", which is built locally"},
	{[]string{"toomanyrequests", "too many requests", "rate limit"}, corral.ErrUnavailable, "the registry refuses more pulls for now",
		"log in with docker login {registry}, or try again later"},
	{[]string{"no space left on device"}, corral.ErrUnavailable, "the engine's disk is full",
		"make room where the engine keeps images, for instance with docker image prune"},
	{[]string{"no matching manifest", "does not match the specified platform"}, corral.ErrInvalid, "the image is not made for the engine's platform",
		"choose an image for this machine's architecture"},
	{[]string{"unauthorized", "authentication required", "no basic auth credentials", "access denied", "denied:", "403 forbidden", "401 unauthorized"},
		corral.ErrDenied, "the registry refuses access",
		"check the name; if the repository is private, run docker login {registry} as the user that Corral runs as"},
	{[]string{"manifest unknown", "not found", "name unknown", "does not exist"}, corral.ErrInvalid, "the registry has no such image",
		"check its name and tag"},
}

func pullError(ctx context.Context, named reference.Named, err error) error {
	name := reference.FamiliarString(named)
	doing := "pull image " + name
	if ctx.Err() != nil || client.IsErrConnectionFailed(err) {
		return engineError(ctx, doing, err)
	}
	text := strings.ToLower(err.Error())
	for _, cause := range pullCauses {
		for _, t := range cause.text {
			if strings.Contains(text, t) {
				return pullFailure(cause.kind, name, cause.what, strings.ReplaceAll(cause.hint, "{registry}", reference.Domain(named)), err)
			}
		}
	}
	code := 0
	if failure, ok := errors.AsType[*streamError](err); ok {
		code = failure.code
	}
	switch {
	case cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err), code == 401, code == 403:
		return pullFailure(corral.ErrDenied, name, "the registry refuses access", "run docker login "+reference.Domain(named)+" as the user that Corral runs as", err)
	case cerrdefs.IsNotFound(err), code == 404:
		return pullFailure(corral.ErrInvalid, name, "the registry has no such image", "check its name and tag", err)
	}
	return engineError(ctx, doing, err)
}

func pullFailure(kind error, name, what, hint string, err error) error {
	return &corral.Error{Kind: kind, Text: fmt.Sprintf("cannot pull image %s: %s: %s", name, what, clean(err.Error(), maxText)), Hint: hint, Err: err}
}
