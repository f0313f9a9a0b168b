package docker

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// Podman has Docker's API, and differs in a few places.
const podman = "podman"

// podmanComponent is how Podman calls itself in its answer to a question for
// the version.
const podmanComponent = "Podman Engine"

// kind is which engine answers. It is asked once.
func (e *Engine) kind(ctx context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked {
		return e.name, nil
	}
	v, err := e.c.ServerVersion(ctx)
	if err != nil {
		return e.name, err
	}
	e.asked = true
	for _, c := range v.Components {
		if c.Name == podmanComponent {
			e.name = podman
		}
	}
	return e.name, nil
}

// forPodman says the same to Podman. remove is for when the container is made.
func forPodman(cfg *container.Config, host *container.HostConfig) (remove func() error, err error) {
	// Without a command of ours it would add the image's.
	if len(cfg.Entrypoint) > 1 {
		cfg.Entrypoint, cfg.Cmd = cfg.Entrypoint[:1], []string(cfg.Entrypoint[1:])
	}
	cfg.Healthcheck = nil // it takes NONE for a program
	uncountFiles(host)
	keepLimits(host)
	return seccompFile(host)
}

// uncountFiles leaves out how many files a file system in memory may have, which
// Podman refuses. They take of the container's memory, which is limited.
func uncountFiles(host *container.HostConfig) {
	for target, options := range host.Tmpfs {
		list := slices.DeleteFunc(strings.Split(options, ","), func(o string) bool { return strings.HasPrefix(o, "nr_inodes=") })
		host.Tmpfs[target] = strings.Join(list, ",")
	}
}

const seccompOption = "seccomp="

// seccompFile puts the seccomp profile into a file, of which Podman takes the
// name where Docker takes the text. It is read while the container is made.
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
