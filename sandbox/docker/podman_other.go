//go:build !linux

package docker

import "github.com/docker/docker/api/types/container"

// keepLimits does nothing: Podman is on a Linux machine elsewhere.
func keepLimits(*container.HostConfig) {}
