package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
)

// Containerd returns the containerd of this machine, with the image
// images.Busybox there; e2e/engine.sh starts it if none answers. It is closed
// when t ends. Sandboxes go with the directories of package testdir.
func Containerd(t testing.TB) *containerd.Engine {
	t.Helper()
	address, err := containerdAddress()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := containerd.New(containerd.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, engine)
	return engine
}

// containerdAddress is its socket.
var containerdAddress = sync.OnceValues(func() (string, error) {
	root, err := built.Root()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "e2e", "engine.sh"), "containerd")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cannot get a containerd: %w\n%s", err, errs.Bytes())
	}
	address := strings.TrimSpace(out.String())
	testdir.AlsoRemove(func(dir string) error { return RemoveSandboxes(address, dir) })
	return address, nil
})

// engineLimit bounds what containerd may take.
const engineLimit = 2 * time.Minute

// labelState is where a sandbox has its state.
const labelState = "corral.state"

// RemoveSandboxes removes the sandboxes that have their state in a directory
// from a containerd.
func RemoveSandboxes(address, dir string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	engine, err := containerd.New(containerd.Options{Address: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	list, err := engine.List(ctx, map[string]string{sandbox.Label: "sandbox"})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list {
		if state := c.Labels[labelState]; state == dir || strings.HasPrefix(state, dir+"/") {
			errs = append(errs, engine.Remove(ctx, c.ID))
		}
	}
	return errors.Join(errs...)
}
