//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

// engineExec runs jobs by the engine's exec API, as docker exec does.
type engineExec struct {
	c         *client.Client
	container string
	user      string
}

func (e engineExec) run(ctx context.Context, j job) (time.Duration, error) {
	var count counter
	var stderr bytes.Buffer
	start := time.Now()
	made, err := e.c.ContainerExecCreate(ctx, e.container, container.ExecOptions{
		User: e.user, Cmd: []string{"/bin/sh", "-lc", j.shell},
		AttachStdin: j.input > 0, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, err
	}
	conn, err := e.c.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	fed := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn.Conn, &text{j.input})
		if j.input > 0 {
			err = errors.Join(err, conn.CloseWrite())
		}
		fed <- err
	}()
	_, err = stdcopy.StdCopy(&count, &stderr, conn.Reader)
	if err = errors.Join(err, <-fed); err != nil {
		return 0, err
	}
	code, err := e.exitCode(ctx, made.ID)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	if code != 0 {
		return 0, fmt.Errorf("%q: exit code %d: %s", j.shell, code, stderr.Bytes())
	}
	return took, checkOutput(j, count.n.Load())
}

// exitCode asks until the engine knows: the output may end a moment earlier.
func (e engineExec) exitCode(ctx context.Context, id string) (int, error) {
	for {
		state, err := e.c.ContainerExecInspect(ctx, id)
		if err != nil {
			return 0, err
		}
		if !state.Running {
			return state.ExitCode, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		time.Sleep(time.Millisecond)
	}
}

// engineRun runs each job in a container made for it, as docker run --rm does.
// Removing it is not measured.
type engineRun struct {
	c     *client.Client
	image string
	user  string
}

func (e engineRun) run(ctx context.Context, j job) (took time.Duration, err error) {
	start := time.Now()
	made, err := e.c.ContainerCreate(ctx,
		&container.Config{
			Image: e.image, User: e.user, Entrypoint: []string{"/bin/sh", "-lc", j.shell}, NetworkDisabled: true,
			Labels: map[string]string{"corral": "bench"},
		},
		&container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}, nil, nil, "")
	if err != nil {
		return 0, err
	}
	defer func() {
		rerr := e.c.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		err = errors.Join(err, rerr)
	}()
	ended, failed := e.c.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := e.c.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return 0, err
	}
	select {
	case end := <-ended:
		took = time.Since(start)
		if end.Error != nil {
			return 0, errors.New(end.Error.Message)
		}
		if end.StatusCode != 0 {
			return 0, fmt.Errorf("%q: exit code %d", j.shell, end.StatusCode)
		}
		return took, nil
	case err := <-failed:
		return 0, err
	}
}
