package images

import (
	"context"
	"errors"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
)

// An Asker is an Engine that can ask a registry for an image without fetching it.
type Asker interface {
	// Ask returns nil if the registry has the image, and
	// errors.ErrUnsupported if only a pull can tell. The zero AuthConfig is
	// none.
	Ask(ctx context.Context, ref reference.Named, auth registry.AuthConfig) error
}

// Find looks for an image without getting it. If the engine does not have it the
// error says why Ensure could not get it, as far as that is known beforehand.
func (s Store) Find(ctx context.Context, ref string) (found bool, err error) {
	r, ours, nameErr := own(ref)
	_, found, err = s.lookup(ctx, ref)
	switch {
	case found:
		return true, nil
	case nameErr != nil:
		return false, nameErr
	case err != nil:
		return false, err
	case !ours:
		return false, s.ask(ctx, ref)
	}
	if err := r.check(); err != nil {
		return false, err
	}
	return false, s.checkArch(ctx, r)
}

// ask asks an image's registry for it.
func (s Store) ask(ctx context.Context, ref string) error {
	asker, ok := s.Engine.(Asker)
	if !ok {
		return nil
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return err // own has parsed it already
	}
	named = reference.TagNameOnly(named)
	auth, err := s.auth(ctx, reference.Domain(named))
	if err != nil {
		auth = registry.AuthConfig{} // as a pull does
	}
	if err = asker.Ask(ctx, named, auth); err == nil || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return pullError(ctx, named, err)
}
