//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/corral-exec/corral/sandbox"
)

// boxDebian is a sandbox of the same image with the login profile of Debian.
const boxDebian = "sandbox, fds, Debian's profile"

// boxSnapshot is the same with a snapshot of what the profile leaves.
const boxSnapshot = boxDebian + ", snapshot"

// debianImage is that image, as long as the program runs.
const debianImage = "corral/bench-debian-profile:1"

// addDebian adds the sandbox, where the image has Debian's profile beside its own.
func (s *site) addDebian(ctx context.Context) (err error) {
	made, err := s.api.ContainerCreate(ctx, &container.Config{Image: s.image, Labels: map[string]string{"corral": "bench"}}, nil, nil, nil, "")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.api.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true}))
	}()
	profile, _, err := s.api.CopyFromContainer(ctx, made.ID, "/usr/share/base-files/profile")
	if err != nil { // an image that is not Debian's
		return nil //nolint:nilerr // there is nothing to compare
	}
	defer profile.Close()
	r := tar.NewReader(profile)
	h, err := r.Next()
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	h.Name = "profile"
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := s.api.CopyToContainer(ctx, made.ID, "/etc", &archive, container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("cannot give an image Debian's profile: %w", err)
	}
	if _, err := s.api.ContainerCommit(ctx, made.ID, container.CommitOptions{Reference: debianImage}); err != nil {
		return err
	}
	s.closers = append(s.closers, closer(func() error {
		_, err := s.api.ImageRemove(context.Background(), debianImage, image.RemoveOptions{Force: true})
		return err
	}))
	for _, name := range []string{boxDebian, boxSnapshot} {
		snapshot := name == boxSnapshot
		cfg := s.config(map[bool]string{false: "debian-profile", true: "debian-snapshot"}[snapshot], sandbox.DriverFDs)
		cfg.Image, cfg.Environment.Snapshot = debianImage, snapshot
		ex, err := sandbox.New(cfg)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, ex)
		s.add(place{name: name, run: ours{ex: ex}.run})
	}
	return nil
}

type closer func() error

func (c closer) Close() error { return c() }
