package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/escape"
)

// atStart are the descriptors that this program inherited.
var atStart []int

// self is this program again.
func self(args ...string) *exec.Cmd { return exec.Command("/proc/self/exe", args...) }

const usage = `corral-escape: this program is started by corral doctor --deep, in a sandbox:
  run [-but ID] [ID...]   make these tries, or all, and print a JSON object for each
  list                    print their IDs
`

// Main is the program. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	atStart = inheritedNow()
	err := command(args, stdout)
	var code exitCode
	switch {
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errUsage):
		fmt.Fprint(stderr, usage)
		return 2
	case err != nil:
		fmt.Fprintln(stderr, "corral-escape:", err)
		return 1
	}
	return 0
}

var errUsage = errors.New("usage")

type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func command(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	rest := args[1:]
	switch args[0] {
	case "list":
		for _, p := range All() {
			if _, err := fmt.Fprintln(stdout, p.ID); err != nil {
				return err
			}
		}
		return nil
	case "run":
		return run(rest, stdout)
	case "one":
		return one(rest, stdout)
	case "init":
		return standIn(rest)
	case "canary":
		return canary(rest, stdout)
	case "hold":
		return hold(rest, os.Stdin, stdout)
	case "need":
		return need(rest, stdout)
	case "bomb":
		return bomb(rest, stdout)
	case "whoami":
		return whoami(stdout)
	case "nested":
		if len(rest) == 1 {
			return nested(rest[0])
		}
	}
	return errUsage
}

// inheritedNow lists the descriptors that are open and that neither this program
// nor the Go runtime opened.
func inheritedNow() []int {
	var open []int
	for fd := 3; fd < 256; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 { // what is opened here closes on exec
			open = append(open, fd)
		}
	}
	return open
}

// tryLimit bounds a try.
const tryLimit = 20 * time.Second

// run makes tries, each in a process of its own.
func run(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	but := fs.String("but", "", "`ID` of one that is not made")
	if err := fs.Parse(args); err != nil {
		return err
	}
	out, isolated := json.NewEncoder(stdout), gvisor()
	for _, p := range All() {
		if p.ID == *but || fs.NArg() > 0 && !slices.Contains(fs.Args(), p.ID) {
			continue
		}
		v := apart(p.ID)
		if isolated && p.Inside != "" && v.Outcome == escape.Escaped {
			v = Verdict{escape.Inside, p.Inside}
		}
		r := escape.Result{ID: p.ID, Tries: p.Tries, Why: p.Why, Outcome: v.Outcome, Detail: v.Detail}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// apart makes a try in another process: it may end, or not come back.
func apart(id string) Verdict {
	ctx, cancel := context.WithTimeout(context.Background(), tryLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "one", id)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var v Verdict
	if json.Unmarshal(out, &v) == nil && v.Outcome != "" {
		return v
	}
	if cmd.ProcessState != nil {
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGSYS {
			return held("the process was killed for its system call")
		}
	}
	return lacking("the try broke: %v %.200s", err, stderr.String())
}

const maxDetail = 200

func one(args []string, stdout io.Writer) error {
	var e Env
	if err := json.Unmarshal([]byte(os.Getenv(escape.SiteVar)), &e.Site); err != nil {
		return fmt.Errorf("cannot read %s: %w", escape.SiteVar, err)
	}
	i := slices.IndexFunc(All(), func(p Probe) bool { return len(args) == 1 && p.ID == args[0] })
	if i < 0 {
		return errUsage
	}
	var err error
	if e.Dir, err = os.MkdirTemp("/tmp", "escape-"); err != nil {
		return err
	}
	v := All()[i].Run(&e)
	v.Detail = strings.ReplaceAll(strings.ToValidUTF8(v.Detail, "?"), "\n", "; ")
	if len(v.Detail) > maxDetail {
		v.Detail = strings.ToValidUTF8(v.Detail[:maxDetail], "") + "…"
	}
	_ = os.RemoveAll(e.Dir) // in a chroot it is not there
	return json.NewEncoder(stdout).Encode(v)
}

// whoami prints the user, and the capabilities in hexadecimal.
func whoami(stdout io.Writer) error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, caps, _ := strings.Cut(string(b), "CapEff:")
	caps, _, _ = strings.Cut(strings.TrimSpace(caps), "\n")
	_, err = fmt.Fprintln(stdout, os.Geteuid(), caps)
	return err
}

// standIn is PID 1 of a weakened container: a program like any other, that makes
// tries and ends. It holds what the warden would.
func standIn(args []string) error {
	fs := flag.NewFlagSet("init", flag.ContinueOnError)
	file := fs.String("out", "", "`FILE` for the results")
	leak := fs.String("leak", "", "`DIRECTORY` to have open in what it starts")
	metadata := fs.Bool("metadata", false, "be a metadata service as well")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	out, err := os.OpenFile(*file, os.O_WRONLY|os.O_APPEND, 0) // laid out by the test
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := self(append([]string{"run"}, fs.Args()...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if *leak != "" {
		dir, err := os.Open(*leak)
		if err != nil {
			return err
		}
		defer dir.Close()
		cmd.ExtraFiles = []*os.File{dir, out}
	}
	if *metadata {
		if err := serveMetadata(); err != nil { // in gVisor's network there is none
			fmt.Fprintln(os.Stderr, "corral-escape:", err)
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
		return err
	case <-ended:
		return exitCode(3)
	}
}
