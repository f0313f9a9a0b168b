package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Podman has Docker's API, and differs in a few places.
const podman = "podman"

// How Podman is known: by a header of its answers, and by what it calls itself in its
// answer to a question for the version.
const (
	podmanHeader    = "Libpod-Api-Version"
	podmanComponent = "Podman Engine"
)

// kind is which engine answers. It is asked until it has said so.
func (e *Engine) kind(ctx context.Context) (string, error) {
	e.mu.Lock()
	name, asked := e.name, e.asked
	e.mu.Unlock()
	if asked {
		return name, nil
	}
	isPodman, err := e.isPodman(ctx)
	if err == nil {
		e.know(isPodman)
	}
	return e.called(), err
}

// know notes which engine answers, unless that is known.
func (e *Engine) know(isPodman bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if isPodman && !e.asked {
		e.name = podman
	}
	e.asked = true
}

func (e *Engine) isPodman(ctx context.Context) (bool, error) {
	// For its version an engine runs programs, which takes longer than all else
	// that a command in a container needs of it.
	header, err := e.ping(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if isPodman, known := saysPodman(header); err == nil && known {
		return isPodman, nil
	}
	v, err := e.c.ServerVersion(ctx) // whose errors say more
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(v.Components, func(c types.ComponentVersion) bool { return c.Name == podmanComponent }), nil
}

// hello sees that the engine answers, and takes from its answer which engine it is,
// where that is in it.
func (e *Engine) hello(ctx context.Context) error {
	header, err := e.ping(ctx)
	if err != nil {
		return err
	}
	if isPodman, known := saysPodman(header); known {
		e.know(isPodman)
	}
	return nil
}

// saysPodman reports whether an answer is Podman's, if it says whose it is: a program
// between may leave that out.
func saysPodman(header http.Header) (isPodman, known bool) {
	isPodman = header.Get(podmanHeader) != ""
	return isPodman, isPodman || strings.HasPrefix(header.Get("Server"), "Docker/")
}

// ping asks for an answer. It has the version of the API, for which the client would
// ask once more.
func (e *Engine) ping(ctx context.Context) (http.Header, error) {
	answer, err := e.raw(ctx, http.MethodHead, "_ping")
	if err != nil {
		return nil, err
	}
	if version := answer.Header.Get("Api-Version"); version != "" {
		e.agreed.Do(func() { e.c.NegotiateAPIVersionPing(types.Ping{APIVersion: version}) })
	}
	return answer.Header, answer.Body.Close()
}

// raw asks the engine without Docker's client. Any answer but 200 is an error.
func (e *Engine) raw(ctx context.Context, method, path string) (*http.Response, error) {
	dial := e.c.Dialer()
	h := http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://engine/"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := h.Do(req)
	if err == nil && answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		err = fmt.Errorf("it answers %s", answer.Status)
	}
	return answer, err
}

// podmanState asks for what Podman says of itself, with a field that Docker does
// not have, and Docker's client leaves out.
func (e *Engine) podmanState(ctx context.Context) (info system.Info, rootless bool, err error) {
	answer, err := e.raw(ctx, http.MethodGet, "info")
	if err != nil {
		return info, false, err
	}
	defer answer.Body.Close()
	var got struct {
		system.Info
		Rootless bool
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxInfo)).Decode(&got)
	return got.Info, got.Rootless, err
}

// maxInfo bounds what Podman says of itself, in bytes.
const maxInfo = 1 << 20

// podmans are what Podmans said of themselves, by where they listen. To say it a
// Podman runs half a dozen programs, for longer than it takes to make a container:
// it is taken for true for a while, by all connections, as long as it answers.
var podmans struct {
	sync.Mutex
	said map[string]said
}

type said struct {
	info engine.Info
	at   time.Time
}

const remembering = time.Minute

func (e *Engine) remembered() (engine.Info, bool) {
	podmans.Lock()
	defer podmans.Unlock()
	s, ok := podmans.said[e.c.DaemonHost()]
	return s.info, ok && time.Since(s.at) < remembering
}

func (e *Engine) remember(info engine.Info) {
	if info.Name != podman {
		return
	}
	podmans.Lock()
	defer podmans.Unlock()
	if podmans.said == nil {
		podmans.said = map[string]said{}
	}
	podmans.said[e.c.DaemonHost()] = said{info, time.Now()}
}

// forPodman says the same to Podman. remove is for when the container is made.
func forPodman(cfg *container.Config, host *container.HostConfig) (remove func() error, err error) {
	// Without a command of ours it would add the image's.
	if len(cfg.Entrypoint) > 1 {
		cfg.Entrypoint, cfg.Cmd = cfg.Entrypoint[:1], []string(cfg.Entrypoint[1:])
	}
	cfg.Healthcheck = nil // it takes NONE for a program
	memoryFiles(host)
	keepLimits(host)
	return seccompFile(host)
}

// memoryFiles leaves out what Podman refuses of a file system in memory: how many files
// it may have, which take of the container's memory, and that is limited; and the number
// of its owner, where U stands for the container's user.
func memoryFiles(host *container.HostConfig) {
	for target, options := range host.Tmpfs {
		var list []string
		for option := range strings.SplitSeq(options, ",") {
			switch name, _, _ := strings.Cut(option, "="); name {
			case "nr_inodes", "gid":
			case "uid":
				list = append(list, "U")
			default:
				list = append(list, option)
			}
		}
		host.Tmpfs[target] = strings.Join(list, ",")
	}
}

const seccompOption = "seccomp="

// seccompFile puts the seccomp profile into a file: Podman takes its name where
// Docker takes the text. It is read while the container is made.
func seccompFile(host *container.HostConfig) (remove func() error, err error) {
	remove = func() error { return nil }
	for i, option := range host.SecurityOpt {
		text, found := strings.CutPrefix(option, seccompOption)
		if !found {
			continue
		}
		f, err := os.CreateTemp("", "corral-seccomp-*.json")
		if err != nil {
			return remove, err
		}
		remove = func() error { return os.Remove(f.Name()) }
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err != nil {
			return remove, err
		}
		host.SecurityOpt[i] = seccompOption + f.Name()
	}
	return remove, nil
}
