//go:build linux

package containerd

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctrimages "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/corral-exec/corral/images"
)

// Pull implements images.Engine: this program fetches the image, and containerd
// keeps and unpacks it.
func (s imageStore) Pull(ctx context.Context, ref reference.Named, auth registry.AuthConfig, report func(images.Transfer)) error {
	ctx = s.in(ctx)
	named := reference.TagNameOnly(ref)
	resolver := resolverOf(named, auth)
	var layers transfers
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, &layers, report)
	}()
	_, err := s.c.Pull(ctx, named.String(), client.WithResolver(resolver), client.WithPullUnpack, client.WithPullSnapshotter(snapshotter),
		client.WithImageHandler(ctrimages.HandlerFunc(func(_ context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
			layers.add(d)
			return nil, nil
		})))
	cancel()
	<-watched
	return err
}

// Ask implements images.Asker.
func (s imageStore) Ask(ctx context.Context, ref reference.Named, auth registry.AuthConfig) error {
	_, _, err := resolverOf(ref, auth).Resolve(s.in(ctx), reference.TagNameOnly(ref).String())
	return err
}

// resolverOf asks the registry of an image.
func resolverOf(ref reference.Named, auth registry.AuthConfig) remotes.Resolver {
	domain := reference.Domain(ref)
	if auth.IdentityToken != "" {
		auth.Username, auth.Password = "", auth.IdentityToken // as the authorizer takes it
	}
	return docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(
		docker.WithPlainHTTP(docker.MatchLocalhost),
		docker.WithAuthorizer(docker.NewDockerAuthorizer(docker.WithAuthCreds(func(host string) (string, string, error) {
			if registryHost(host) != domain {
				return "", "", nil // not that registry's business
			}
			return auth.Username, auth.Password, nil
		}))),
	)})
}

// registryHost is the domain that a host of a registry is known by.
func registryHost(host string) string {
	if host == "registry-1.docker.io" {
		return "docker.io"
	}
	return host
}

// transfers are the layers of an image that is being pulled.
type transfers struct {
	mu   sync.Mutex
	list []ocispec.Descriptor
}

func (t *transfers) add(d ocispec.Descriptor) {
	if !ctrimages.IsLayerType(d.MediaType) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, d)
}

// watch reports how far the layers are, until ctx ends.
func (s imageStore) watch(ctx context.Context, layers *transfers, report func(images.Transfer)) {
	told := map[string]int64{}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		layers.mu.Lock()
		list := layers.list
		layers.mu.Unlock()
		for _, d := range list {
			current := d.Size
			status, err := s.c.ContentStore().Status(ctx, remotes.MakeRefKey(ctx, d))
			if err == nil {
				current = status.Offset
			} else if !errdefs.IsNotFound(err) {
				continue // it is about to end, or the next round tells
			} else if _, err := s.c.ContentStore().Info(ctx, d.Digest); err != nil {
				continue // not begun
			}
			item := d.Digest.Encoded()[:12]
			if before, known := told[item]; !known || before != current {
				told[item] = current
				report(images.Transfer{Item: item, Status: "Downloading", Current: current, Total: d.Size})
			}
		}
	}
}
