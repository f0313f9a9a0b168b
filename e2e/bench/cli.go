//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
)

// Whole processes of the command line, and of Docker's.
const (
	cliGateway = "corral exec, gateway"
	cliWarm    = "corral exec, warm sandbox"
	cliHost    = "corral exec, this machine"
	cliHelp    = "corral --help"
	cliDocker  = "docker exec, the program"
)

// cliSandbox is the sandbox of a corral exec that names none.
const cliSandbox = "default"

// A cli has what the command line uses without a gateway: a state directory with a
// sandbox in it.
type cli struct {
	site    *site
	program string
	state   string
	env     []string
	box     func() (container string, err error) // makes the sandbox, once
}

func (s *site) addCLI(program string) {
	c := &cli{site: s, program: program, state: filepath.Join(s.dir, "cli")}
	// The program has a warden of its own, which costs other than a file that a
	// variable names. All else is as the caller has it, but for a shell that does little.
	c.env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CORRAL_") })
	c.env = append(c.env, "SHELL=/bin/sh")
	if s.wardenPath != "" {
		c.env = append(c.env, "CORRAL_WARDEN="+s.wardenPath)
	}
	c.box = sync.OnceValues(c.makeBox)
	s.add(place{name: cliGateway, run: func(ctx context.Context, j job) (time.Duration, error) {
		return c.run(ctx, j, program, "exec", "--quiet", "--state-dir", s.gateway.state, j.shell)
	}})
	s.add(place{name: cliWarm, run: c.warm})
	s.add(place{name: cliHost, run: func(ctx context.Context, j job) (time.Duration, error) {
		return c.run(ctx, j, program, "exec", "--quiet", "--state-dir", c.state, "--host", "gateway", j.shell)
	}})
	s.add(place{name: cliHelp, run: func(ctx context.Context, j job) (time.Duration, error) {
		return c.run(ctx, j, program, "--help")
	}})
	s.add(place{name: cliDocker, run: func(ctx context.Context, j job) (time.Duration, error) {
		container, err := c.box()
		if err != nil {
			return 0, err
		}
		return c.run(ctx, j, "docker", "exec", "--user", boxUser, container, "/bin/sh", "-lc", j.shell)
	}})
}

// warm runs a job in the sandbox, without a gateway.
func (c *cli) warm(ctx context.Context, j job) (time.Duration, error) {
	if _, err := c.box(); err != nil {
		return 0, err
	}
	return c.inBox(ctx, j)
}

func (c *cli) inBox(ctx context.Context, j job) (time.Duration, error) {
	return c.run(ctx, j, c.program, "exec", "--quiet", "--state-dir", c.state, "--host", "sandbox", "--engine", "docker",
		"--image", c.site.image, "--user", boxUser, "--cpus", "unlimited", j.shell)
}

// run is how long a program takes as a whole process: from before it is started until
// it has been waited for.
func (c *cli) run(ctx context.Context, j job, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = c.env, &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if errors.Is(err, exec.ErrNotFound) {
		return 0, corral.Errorf(corral.ErrUnavailable, "install it (Debian: apt-get install docker.io)", "cannot run %s: %w", program, err)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, stderr.Bytes())
	}
	return took, nil
}

// makeBox makes the sandbox, which is removed at the end, and returns its container.
func (c *cli) makeBox() (container string, err error) {
	ctx := context.Background() // what is made has to be removed
	c.site.closers = append(c.site.closers, c)
	if _, err := c.inBox(ctx, job{shell: "true"}); err != nil {
		return "", err
	}
	list, err := sandbox.List(ctx, c.site.engine, c.state)
	if err != nil {
		return "", err
	}
	if len(list) != 1 {
		return "", fmt.Errorf("%d containers of the state directory %s, and not one", len(list), c.state)
	}
	return list[0].ID, nil
}

// Close removes the sandbox.
func (c *cli) Close() (err error) {
	box, err := sandbox.New(sandbox.Config{Engine: c.site.engine, StateDir: c.state, Name: cliSandbox})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	return box.Remove(context.Background())
}
