package engines

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox/containerd"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Names of engines. Auto is the first of the others that answers.
const (
	Auto       = "auto"
	Docker     = "docker"
	Containerd = "containerd"
	Podman     = "podman"
)

// An Engine is a connection to an engine.
type Engine interface {
	engine.Engine
	Images() images.Engine
	// Ping says whether it answers, in as little time as that takes.
	Ping(ctx context.Context) error
	Versions(ctx context.Context) (engine.Versions, error)
}

// A Kind is an engine that Auto tries.
type Kind struct {
	Name     string
	Variable string // of the environment, that says where the engine listens
	open     func() (Engine, error)
}

// Open returns a connection, whether or not the engine answers.
func (k Kind) Open() (Engine, error) { return k.open() }

// Kinds are in the order in which Auto tries them: Docker does all that there is,
// containerd all but networks and exec, both are tested in full; Podman is
// Docker's interface once more, and loses some of it. A user who is not root
// cannot use the machine's containerd, and comes to a Podman of their own.
func Kinds() []Kind {
	return []Kind{
		{Docker, "DOCKER_HOST", func() (Engine, error) { return docker.New(docker.Options{}) }},
		{Containerd, "CONTAINERD_ADDRESS", func() (Engine, error) { return containerd.New(containerd.Options{}) }},
		{Podman, "CONTAINER_HOST", func() (Engine, error) {
			return docker.New(docker.Options{Name: Podman, Host: podmanHost(os.Getenv, os.Geteuid())})
		}},
	}
}

// PointedAt is the first kind whose variable is set: the user means that engine.
// It is false if there is none.
func PointedAt() (Kind, bool) {
	for _, k := range Kinds() {
		if os.Getenv(k.Variable) != "" {
			return k, true
		}
	}
	return Kind{}, false
}

// podmanHost is where Podman listens: CONTAINER_HOST, which is Podman's own
// variable, else the socket of this user's, else root's.
func podmanHost(getenv func(string) string, uid int) string {
	if host := getenv("CONTAINER_HOST"); host != "" {
		return host
	}
	if runtime := getenv("XDG_RUNTIME_DIR"); uid != 0 && runtime != "" {
		return "unix://" + filepath.Join(runtime, "podman/podman.sock")
	}
	return "unix:///run/podman/podman.sock"
}

// askEngine bounds how long Open waits for one engine to answer.
const askEngine = 5 * time.Second

// Open returns the engine of that name; empty is Auto. It need not answer. Auto is
// the engine that the environment points at, else the first that answers; if none
// does, it is Docker, whose error says what to do.
func Open(ctx context.Context, name string) (Engine, error) {
	kinds := Kinds()
	if name = cmp.Or(name, Auto); name != Auto {
		for _, k := range kinds {
			if k.Name == name {
				return k.Open()
			}
		}
		return nil, corral.Errorf(corral.ErrInvalid, "use auto, docker, containerd or podman", "there is no engine %q", name)
	}
	if k, ok := PointedAt(); ok {
		return k.Open()
	}
	for _, k := range kinds {
		eng, err := k.Open()
		if err != nil {
			continue // corral doctor says so
		}
		if answers(ctx, eng) {
			return eng, nil
		}
		if err := eng.Close(); err != nil {
			return nil, err
		}
	}
	return kinds[0].Open()
}

func answers(ctx context.Context, eng Engine) bool {
	ctx, cancel := context.WithTimeout(ctx, askEngine)
	defer cancel()
	return eng.Ping(ctx) == nil
}
