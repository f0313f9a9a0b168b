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
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// gateway is a gateway in a process of its own, as platforms use it.
type gateway struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	client *client.Client
	state  string
	rm     func() error // removes its sandbox
}

// addGateway starts a gateway with a sandbox like the others.
func (s *site) addGateway(ctx context.Context, program string) error {
	g := &gateway{state: filepath.Join(s.dir, "gateway")}
	// What is on the host is measured, and not the time of a person who approves it.
	settings := filepath.Join(s.dir, "corral.json5")
	if err := os.WriteFile(settings, []byte(`{tools: {exec: {security: "full", ask: "off"}}}`), 0o600); err != nil {
		return err
	}
	g.cmd = exec.Command(program, "gateway", "--config", settings, "--state-dir", g.state, "--sandbox", "all", "--image", s.image, "--user", boxUser, "--allow-elevated")
	g.cmd.Stderr = &g.stderr
	g.cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	if s.wardenPath != "" {
		g.cmd.Env = append(g.cmd.Env, "CORRAL_WARDEN="+s.wardenPath)
	}
	if err := g.cmd.Start(); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "make build", "cannot start a gateway: %w", err)
	}
	g.rm = func() (err error) {
		box, err := sandbox.New(sandbox.Config{Engine: s.engine, StateDir: g.state, Name: session.DefaultAgent})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, box.Close()) }()
		return box.Remove(context.Background())
	}
	s.closers = append(s.closers, g)
	var err error
	if g.client, err = g.clientOf(""); err != nil {
		return err
	}
	for end := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) {
		if err = g.client.Ready(ctx); err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the gateway does not get ready: %w: %s", err, g.stderr.Bytes())
		}
	}
	s.gateway = g
	s.add(place{name: boxHTTP, run: g.exec})
	s.add(place{name: followed(0), run: g.watched(0)})
	s.add(place{name: followed(followers), run: g.watched(followers)})
	return nil
}

const readyLimit = 20 * time.Second

// clientOf is a client of the gateway for an agent; empty: the default one.
func (g *gateway) clientOf(agent string) (*client.Client, error) {
	return client.New(client.Options{Socket: filepath.Join(g.state, "gateway.sock"), Agent: agent, Retry: -1})
}

// exec runs a job by POST /v1/exec.
func (g *gateway) exec(ctx context.Context, j job) (time.Duration, error) {
	start := time.Now()
	res, err := g.client.Exec(ctx, tool.ExecRequest{Command: j.shell})
	took := time.Since(start)
	if err == nil && (res.Status != tool.StatusCompleted || res.Ended == nil || res.ExitCode == nil || *res.ExitCode != 0) {
		err = fmt.Errorf("%q: %s, %s", j.shell, res.Status, res.Error)
	}
	return took, err
}

// followers is how many clients follow the log of a job.
const followers = 10

func followed(n int) string { return strconv.Itoa(n) + " followers" }

// watched runs a job whose log is followed by n clients, from before it begins
// until its end. What is measured is the job: its own time, by its clock.
func (g *gateway) watched(n int) func(ctx context.Context, j job) (time.Duration, error) {
	return func(ctx context.Context, j job) (took time.Duration, err error) {
		p, err := g.client.Start(ctx, corral.Command{Shell: "read go; date +%s%N >&2; " + j.shell[len("exec "):] + "; date +%s%N >&2", Stdin: true, Elevated: true})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, discard(p)) }()
		var following sync.WaitGroup
		got := make([]int64, n)
		for i := range n {
			one, err := g.client.Attach(ctx, p.Info().ID)
			if err != nil {
				return 0, err
			}
			following.Go(func() { got[i] = follow(ctx, one.Log()) })
		}
		time.Sleep(pauseTime) // until all of them wait for output
		if _, err := p.Write(ctx, []byte("go\n")); err != nil {
			return 0, err
		}
		exit, err := p.Wait(ctx)
		if err == nil && !exit.Success() {
			err = fmt.Errorf("%q: %v", j.shell, exit)
		}
		following.Wait()
		if err != nil {
			return 0, err
		}
		for _, end := range got {
			if end < j.output {
				return 0, fmt.Errorf("a follower came as far as %d of %d bytes", end, j.output)
			}
		}
		return g.span(ctx, p, j.output)
	}
}

// follow reads a log to its end, and returns how far that is.
func follow(ctx context.Context, log corral.Log) (off int64) {
	buf := make([]byte, pieceSize)
	for {
		c, err := log.Read(ctx, off, buf)
		if err != nil {
			return off
		}
		off = c.Next()
	}
}

// span is the time between the two dates that a job printed.
func (g *gateway) span(ctx context.Context, p corral.Process, size int64) (time.Duration, error) {
	st, err := p.Log().Stat(ctx)
	if err != nil {
		return 0, err
	}
	got, err := runner.ReadExcerpts(ctx, p.Log(), 0, st.Size, 100, false)
	if err != nil {
		return 0, err
	}
	var from, to int64
	if _, err := fmt.Sscan(got.Stderr.Head+got.Stderr.Tail, &from, &to); err != nil {
		return 0, fmt.Errorf("no dates in %q of %d bytes: %w", got.Stderr, size, err)
	}
	return time.Duration(to - from), nil
}

// idle is what sessions cost a gateway that does nothing, in MB. They are of an agent of
// their own: one can have no more than 1000.
func (g *gateway) idle(ctx context.Context, n int) (mb float64, err error) {
	c, err := g.clientOf("idle")
	if err != nil {
		return 0, err
	}
	before, err := g.rest()
	if err != nil {
		return 0, err
	}
	started := make([]corral.Process, 0, n)
	defer func() {
		for _, p := range started {
			err = errors.Join(err, discard(p))
		}
	}()
	for range n {
		p, err := c.Start(ctx, corral.Command{Args: []string{"sleep", "1000"}, Stdin: true, Elevated: true})
		if err != nil {
			return 0, err
		}
		started = append(started, p)
	}
	after, err := g.rest()
	return after - before, err
}

// rest is the gateway's resident memory when it has given back what it does not
// need.
func (g *gateway) rest() (float64, error) {
	time.Sleep(settleTime)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(g.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("cannot see the gateway's memory: %w", err)
	}
	return statusMB(status, "VmRSS"), nil
}

// Close ends the gateway, and removes its sandbox.
func (g *gateway) Close() error {
	var errs []error
	if g.client != nil {
		errs = append(errs, g.client.Close())
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err == nil {
		err = g.cmd.Wait()
		if err != nil {
			err = fmt.Errorf("the gateway: %w: %s", err, g.stderr.Bytes())
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, g.rm())...)
}
