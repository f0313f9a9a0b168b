package client_test

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// BenchmarkFollowers measures by how much those who follow a command's output
// slow it down: a command that writes a gibibyte as fast as it can, alone and
// with ten followers, in turns, so that both see the same machine. "slowdown-%"
// is that of the medians. The "cpu" metrics are the time that gateway and
// followers used until the command had ended, which says more on a busy machine.
func BenchmarkFollowers(b *testing.B) {
	for _, rate := range []int64{-1, 256 << 20, gateway.DefaultFollowRate} {
		b.Run(fmt.Sprintf("rate=%dMiB", rate>>20), func(b *testing.B) {
			x := openWith(b, hostexec.Config{WardenPath: wardenbintest.Build(b), Workspace: b.TempDir()}, testdir.New(b), func(c *gateway.Config) { c.FollowRate = rate })
			var alone, followed []time.Duration
			var cpuAlone, cpuFollowed time.Duration
			for b.Loop() {
				took, cpu := followedRun(b, x, 0)
				alone, cpuAlone = append(alone, took), cpuAlone+cpu
				took, cpu = followedRun(b, x, 10)
				followed, cpuFollowed = append(followed, took), cpuFollowed+cpu
			}
			b.ReportMetric(cpuAlone.Seconds()*1000/float64(len(alone)), "cpu-alone-ms")
			b.ReportMetric(cpuFollowed.Seconds()*1000/float64(len(followed)), "cpu-followed-ms")
			slices.Sort(alone)
			slices.Sort(followed)
			a, f := alone[len(alone)/2], followed[len(followed)/2]
			b.ReportMetric(100*(followed[0].Seconds()/alone[0].Seconds()-1), "slowdown-of-fastest-%")
			b.ReportMetric(a.Seconds()*1000, "alone-ms")
			b.ReportMetric(f.Seconds()*1000, "followed-ms")
			b.ReportMetric(100*(f.Seconds()/a.Seconds()-1), "slowdown-%")
		})
	}
}

func followedRun(b *testing.B, x corral.Executor, followers int) (took, cpu time.Duration) {
	p, err := x.Start(b.Context(), corral.Command{Args: []string{"sh", "-c", "read go; exec head -c 1073741824 /dev/zero"}, Stdin: true})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for range followers {
		q, err := x.Attach(b.Context(), p.Info().ID)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			buf := make([]byte, 256<<10)
			for off := int64(0); ; {
				c, err := q.Log().Read(b.Context(), off, buf)
				if err == io.EOF {
					return
				}
				if err != nil {
					b.Error(err)
					return
				}
				off = c.Next()
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // followers are waiting
	begin, cpuBegin := time.Now(), cpuTime(b)
	if _, err := p.Write(b.Context(), []byte("\n")); err != nil {
		b.Fatal(err)
	}
	exit, err := p.Wait(b.Context())
	if err != nil || !exit.Success() {
		b.Fatal(exit, err)
	}
	took, cpu = exit.EndedAt.Sub(begin), cpuTime(b)-cpuBegin
	wg.Wait()
	if err := p.Remove(b.Context()); err != nil {
		b.Fatal(err)
	}
	return took, cpu
}

// cpuTime is what this program has used: the gateway and the followers, not the
// command.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExec is the time of a shell that does nothing, over HTTP, from the
// request to the end, beside that of os/exec and of what is below HTTP. They
// take turns. The metrics are medians.
func BenchmarkExec(b *testing.B) {
	environ := []string{"PATH=/usr/bin:/bin", "SHELL=/bin/sh"}
	x := openWith(b, hostexec.Config{WardenPath: wardenbintest.Build(b), Workspace: b.TempDir(), Environ: environ}, testdir.New(b), nil)
	direct := tool.New(tool.Config{Agent: x.sessions.Agent(session.DefaultAgent)})
	ways := []struct {
		name string
		run  func() error
	}{
		{"os", func() error {
			cmd := exec.Command("/bin/sh", "-c", "true")
			cmd.Env = environ
			return cmd.Run()
		}},
		{"host", func() error {
			_, err := runner.Run(b.Context(), x.host, corral.Command{Shell: "true"}, runner.Options{})
			return err
		}},
		{"tool", func() error { return succeeded(direct.Exec(b.Context(), tool.ExecRequest{Command: "true"})) }},
		{"http", func() error {
			result, err := x.Exec(b.Context(), tool.ExecRequest{Command: "true"})
			return cmp.Or(err, succeeded(result))
		}},
		{"health", func() error { return x.Ready(b.Context()) }},
	}
	took := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			begin := time.Now()
			if err := way.run(); err != nil {
				b.Fatal(way.name, err)
			}
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i, way := range ways {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), way.name+"-us")
	}
}

func succeeded(r tool.ExecResult) error {
	if r.Ended == nil || r.ExitCode == nil || *r.ExitCode != 0 {
		return fmt.Errorf("it did not work: %+v", r)
	}
	return nil
}
