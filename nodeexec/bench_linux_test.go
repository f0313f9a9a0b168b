package nodeexec_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
)

func benchLife(b *testing.B) *life {
	dir := testdir.New(b)
	return openLife(b, newRig(b), hostexec.Config{WardenPath: wardenbintest.Build(b), Workspace: dir, Environ: exectest.HostEnviron(dir)}, "")
}

// BenchmarkNoop measures by how much a node is slower than the executor that
// it serves: a command that does nothing, from Start until its output and its
// exit are known, here and there in turns, so that both see the same machine.
func BenchmarkNoop(b *testing.B) {
	l := benchLife(b)
	run := func(x corral.Executor) time.Duration {
		begun := time.Now()
		r, err := runner.Run(b.Context(), x, corral.Command{Args: []string{"true"}}, runner.Options{})
		if err != nil || !r.Exit.Success() {
			b.Fatal(r.Exit, err)
		}
		return time.Since(begun)
	}
	var local, node []time.Duration
	for b.Loop() {
		local = append(local, run(l.host))
		node = append(node, run(l.Executor))
	}
	slices.Sort(local)
	slices.Sort(node)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	p50, n50 := local[len(local)/2], node[len(node)/2]
	b.ReportMetric(ms(p50), "local-p50-ms")
	b.ReportMetric(ms(n50), "node-p50-ms")
	b.ReportMetric(ms(n50-p50), "added-p50-ms")
	b.ReportMetric(ms(node[len(node)*99/100]-local[len(local)*99/100]), "added-p99-ms")
}

// BenchmarkFabric measures what there is between a gateway and a node: the
// executor that is served ends every command at once. All of it is in this
// process, so that a profile and the allocations are those of the gateway, the
// message server and the node together.
func BenchmarkFabric(b *testing.B) {
	r := newRig(b)
	r.open()
	host := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"true": fakeexec.Print("", "", 0)}}
	b.Cleanup(func() {
		if err := host.Close(); err != nil {
			b.Error(err)
		}
	})
	r.serve(host)
	x := r.node()
	before := r.conn.Stats()
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begun := time.Now()
		p, err := x.Start(b.Context(), corral.Command{Args: []string{"true"}})
		if err != nil {
			b.Fatal(err)
		}
		if exit, err := p.Wait(b.Context()); err != nil || !exit.Success() {
			b.Fatal(exit, err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	after := r.conn.Stats()
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(float64(after.InMsgs+after.OutMsgs-before.InMsgs-before.OutMsgs)/float64(b.N), "messages/op")
}

// BenchmarkOutput measures the output of a command on a node, and checks that
// every byte of the gibibyte is right. The log is on the disk of the node.
func BenchmarkOutput(b *testing.B) {
	const size = 1 << 30
	l := benchLife(b)
	bin := exectest.BuildTestProg(b, testdir.New(b))
	want := sha256.New()
	buf := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(buf)) {
		pattern.Fill(buf, 15, off)
		want.Write(buf)
	}
	for _, place := range []struct {
		name string
		x    corral.Executor
	}{{"local", l.host}, {"node", l.Executor}} {
		b.Run(place.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				p, err := place.x.Start(b.Context(), corral.Command{
					Args: []string{bin, "pattern", fmt.Sprint(size), "15"}, Log: corral.LogLimit{Head: 2 << 30, Tail: 1 << 20},
				})
				if err != nil {
					b.Fatal(err)
				}
				got := sha256.New()
				for off := int64(0); ; {
					c, err := p.Log().Read(b.Context(), off, buf)
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					got.Write(c.Data)
					off = c.Next()
				}
				if string(got.Sum(nil)) != string(want.Sum(nil)) {
					b.Error("the output is not what was printed")
				}
				if _, err := p.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := p.Remove(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
