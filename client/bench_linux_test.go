package client_test

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/testdir"
	"github.com/corral-exec/corral/internal/wardenbin/wardenbintest"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// BenchmarkFollowers measures by how much those who follow a command's output
// slow it down: a command that writes a gibibyte as fast as it can, alone and
// with ten followers, in turns, so that both see the same machine. "slowdown-%"
// is that of the medians.
func BenchmarkFollowers(b *testing.B) {
	for _, rate := range []int64{-1, 256 << 20, 128 << 20, gateway.DefaultFollowRate, 32 << 20} {
		b.Run(fmt.Sprintf("rate=%dMiB", rate>>20), func(b *testing.B) {
			x := openWith(b, hostexec.Config{WardenPath: wardenbintest.Build(b), Workspace: b.TempDir()}, testdir.New(b), func(c *gateway.Config) { c.FollowRate = rate })
			var alone, followed []time.Duration
			for b.Loop() {
				alone = append(alone, followedRun(b, x, 0))
				followed = append(followed, followedRun(b, x, 10))
			}
			slices.Sort(alone)
			slices.Sort(followed)
			a, f := alone[len(alone)/2], followed[len(followed)/2]
			b.ReportMetric(a.Seconds()*1000, "alone-ms")
			b.ReportMetric(f.Seconds()*1000, "followed-ms")
			b.ReportMetric(100*(f.Seconds()/a.Seconds()-1), "slowdown-%")
		})
	}
}

func followedRun(b *testing.B, x corral.Executor, followers int) time.Duration {
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
	begin := time.Now()
	if _, err := p.Write(b.Context(), []byte("\n")); err != nil {
		b.Fatal(err)
	}
	exit, err := p.Wait(b.Context())
	if err != nil || !exit.Success() {
		b.Fatal(exit, err)
	}
	took := exit.EndedAt.Sub(begin)
	wg.Wait()
	if err := p.Remove(b.Context()); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkExec is the time of a shell that does nothing, over HTTP, from the
// request to the end, beside that of os/exec. "p50-us" is the median.
func BenchmarkExec(b *testing.B) {
	environ := []string{"PATH=/usr/bin:/bin", "SHELL=/bin/sh"}
	b.Run("os", func(b *testing.B) {
		median(b, func() {
			cmd := exec.Command("/bin/sh", "-c", "true")
			cmd.Env = environ
			if _, err := cmd.Output(); err != nil {
				b.Fatal(err)
			}
		})
	})
	x := openWith(b, hostexec.Config{WardenPath: wardenbintest.Build(b), Workspace: b.TempDir(), Environ: environ}, testdir.New(b), nil)
	b.Run("http", func(b *testing.B) {
		median(b, func() {
			result, err := x.Exec(b.Context(), tool.ExecRequest{Command: "true"})
			if err != nil || result.Ended == nil || result.ExitCode == nil || *result.ExitCode != 0 {
				b.Fatal(result, err)
			}
		})
	})
	b.Run("tool", func(b *testing.B) { // without HTTP
		t := tool.New(tool.Config{Agent: x.sessions.Agent(session.DefaultAgent)})
		median(b, func() {
			if result := t.Exec(b.Context(), tool.ExecRequest{Command: "true"}); result.Failed() {
				b.Fatal(result)
			}
		})
	})
	b.Run("host", func(b *testing.B) { // without sessions
		median(b, func() {
			if _, err := corral.Run(b.Context(), x.host, corral.Command{Shell: "true"}, corral.RunOptions{}); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("health", func(b *testing.B) {
		median(b, func() {
			if err := x.Ready(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func median(b *testing.B, f func()) {
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		f()
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}
