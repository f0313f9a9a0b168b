//go:build e2e && linux

package containerd_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
	"github.com/corral-exec/corral/sandbox/engine"
)

// spec is a container that runs a shell script.
func spec(name, script string) engine.Spec {
	return engine.Spec{
		Name: name, Image: images.Busybox, Labels: map[string]string{sandbox.Label: "test"},
		Args: []string{"/bin/sh", "-c", script}, User: "65534:65534", Dir: "/workspace",
		Tmpfs:  []engine.Tmpfs{{Target: "/tmp", Size: 1 << 20, Mode: 0o1777, Exec: true}},
		Memory: 64 << 20, CPUs: 1, Pids: 64,
	}
}

// makeOne makes a container, which goes with t.
func makeOne(t *testing.T, e *containerd.Engine, s engine.Spec) string {
	t.Helper()
	if err := e.Remove(t.Context(), s.Name); err != nil {
		t.Fatal(err)
	}
	id, err := e.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Remove(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	return id
}

func TestLifecycle(t *testing.T) {
	e := enginetest.Containerd(t)
	ctx := t.Context()
	s := spec("corral-test-lifecycle", "sleep 1000")
	if _, err := e.Inspect(ctx, s.Name); err == nil {
		if err := e.Remove(ctx, s.Name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Inspect(ctx, s.Name); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("before: %v", err)
	}
	if err := e.Start(ctx, s.Name); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("start of none: %v", err)
	}
	none := s
	none.Image = "corral/none:1"
	if _, err := e.Create(ctx, none); !errors.Is(err, engine.ErrNoImage) {
		t.Errorf("no image: %v", err)
	}
	id := makeOne(t, e, s)
	if _, err := e.Create(ctx, s); !errors.Is(err, engine.ErrNameTaken) {
		t.Errorf("the same name: %v", err)
	}
	c, err := e.Inspect(ctx, s.Name)
	if err != nil || c.ID != id || c.Name != s.Name || c.Image != s.Image || c.Running || c.Labels[sandbox.Label] != "test" {
		t.Errorf("made: %+v, %v", c, err)
	}
	if err := e.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	if c, err = e.Inspect(ctx, id); err != nil || !c.Running || c.PID <= 1 {
		t.Errorf("started: %+v, %v", c, err)
	}
	list, err := e.List(ctx, map[string]string{sandbox.Label: "test"})
	if err != nil || len(list) != 1 || list[0].PID != c.PID {
		t.Errorf("list: %+v, %v", list, err)
	}
	if list, err := e.List(ctx, map[string]string{sandbox.Label: "other"}); err != nil || len(list) != 0 {
		t.Errorf("list of others: %+v, %v", list, err)
	}
	if err := e.Images().RemoveImage(ctx, images.Busybox); err == nil {
		t.Error("an image that is in use was removed")
	}
	for range 2 {
		if err := e.Remove(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Inspect(ctx, id); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("after: %v", err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), id) {
		t.Errorf("mounts are left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(containerd.DefaultDir, "containers", id)); !os.IsNotExist(err) {
		t.Errorf("files are left: %v", err)
	}
}

// What a container cannot do, and what it finds.
func TestHardened(t *testing.T) {
	e := enginetest.Containerd(t)
	s := spec("corral-test-hardened", `
		grep -E '^(CapPrm|CapEff|CapBnd|CapInh|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status
		id -u; id -g
		touch /x /bin/x /workspace/x 2>&1
		echo a >/proc/sys/kernel/hostname; 
		head -c 1 /proc/kcore | wc -c; ls -A /proc/acpi /sys/firmware /proc/scsi 2>/dev/null | grep -v : | wc -w
		ls /sys/class/net; hostname; cat /etc/hostname
		mount -t tmpfs x /tmp; unshare -U true
		ulimit -c
		echo 'touch /tmp/ran' >/tmp/s; sh /tmp/s; ls /tmp
		ls /dev
		cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max
		cat /proc/self/oom_score_adj; readlink /proc/1/ns/net; grep -o "127.0.0.1$" /proc/net/fib_trie | head -n 1
		echo end; cat >/dev/null`)
	s.Args[2] = "exec 2>&1\n" + s.Args[2]
	s.Stdio = true
	id := makeOne(t, e, s)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	stream, err := e.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out strings.Builder
	for lines := bufio.NewScanner(stream); lines.Scan() && lines.Text() != "end"; {
		out.WriteString(lines.Text() + "\n")
	}
	t.Log(out.String())
	for _, want := range []string{
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2", "65534\n65534\n", "touch: /x: Read-only file system", "touch: /bin/x: Read-only file system",
		"kernel/hostname: Read-only file system", "\nlo\ncorral-test-hardened\ncorral-test-hardened\n", "ran", "64\n67108864\n100000\n",
		"full\n", "urandom\n", "\n127.0.0.1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	for _, not := range []string{"sda", "kmsg", "/dev/mem", "Operation succeeded"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("there is %q", not)
		}
	}
}

// The streams of a container stay when a client detaches. What the container writes
// meanwhile waits for the next client.
func TestAttachAgain(t *testing.T) {
	e := enginetest.Containerd(t)
	s := spec("corral-test-attach", `while read line; do echo "got $line"; done; echo over; exit 7`)
	s.Stdio = true
	id := makeOne(t, e, s)
	if _, err := e.Attach(t.Context(), id); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("attached before the start: %v", err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	attach := func() io.ReadWriteCloser {
		stream, err := e.Attach(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	first := attach()
	say := func(to io.Writer, text string) {
		if _, err := io.WriteString(to, text); err != nil {
			t.Error(err)
		}
	}
	expect := func(r *bufio.Reader, want string) {
		t.Helper()
		if got, err := r.ReadString('\n'); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	say(first, "one\n")
	expect(bufio.NewReader(first), "got one\n")
	say(first, "two\nthree\n")
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second := attach()
	defer second.Close()
	r := bufio.NewReader(second)
	expect(r, "got two\n")
	expect(r, "got three\n")
	say(second, "four\n")
	expect(r, "got four\n")
	// A read that waits ends with Close.
	third := attach()
	ended := make(chan error)
	go func() {
		_, err := third.Read(make([]byte, 1))
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read that was waiting: %v", err)
	}
	if c, err := e.Inspect(t.Context(), id); err != nil || !c.Running {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestExit(t *testing.T) {
	e := enginetest.Containerd(t)
	for name, want := range map[string]engine.Container{
		"exit 3":                        {Exit: 3},
		"x=a; while :; do x=$x$x; done": {Exit: 137, OOM: true},
	} {
		id := makeOne(t, e, spec("corral-test-exit", name))
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		c := engine.Container{Running: true}
		for c.Running {
			var err error
			if c, err = e.Inspect(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if c.Exit != want.Exit || c.OOM != want.OOM {
			t.Errorf("%s: %+v, want %+v", name, c, want)
		}
	}
	id := makeOne(t, e, func() engine.Spec {
		s := spec("corral-test-exit", "")
		s.Args = []string{"/no/such/program"}
		return s
	}())
	if err := e.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("a program that is not there: %v", err)
	}
}
