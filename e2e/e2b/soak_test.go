//go:build e2e

package e2b_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Bounds of what a gateway may have more at the end of a soak than after its first part, and
// than before.
const (
	moreMemory = 32 << 10 // kB
	moreOthers = 10       // descriptors, goroutines
)

// settling is how long connections are kept that may be used again.
const settling = time.Minute

// A usage is what a gateway has while nothing runs.
type usage struct{ memory, descriptors, goroutines int }

var (
	resident   = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
	goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
)

func (g *rig) usage() (u usage) {
	g.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.gateway.Process.Pid))
	g.ok(err)
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(g.state, "gateway.sock"))
	}}}
	res, err := own.Get("http://gateway/metrics")
	g.ok(err)
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	g.ok(err)
	return usage{g.rss(g.gateway.Process.Pid), len(fds), g.number(goroutines, metrics)}
}

// rss is the resident memory of processes, in kB.
func (g *rig) rss(pids ...int) (sum int) {
	g.Helper()
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		g.ok(err)
		sum += g.number(resident, status)
	}
	return sum
}

// number is what an expression finds in a text.
func (g *rig) number(re *regexp.Regexp, text []byte) int {
	g.Helper()
	m := re.FindSubmatch(text)
	if m == nil {
		g.Fatalf("no %v in %s", re, text)
	}
	n, err := strconv.Atoi(string(m[1]))
	g.ok(err)
	return n
}

// The SDK is used for CORRAL_SOAK (make soak-e2b: an hour; else some seconds): what the
// gateway has does not grow, and nothing is left.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("CORRAL_SOAK"), "15s"))
	if err != nil {
		t.Fatalf("CORRAL_SOAK: %v", err)
	}
	parts := max(3, int(length/time.Minute))
	g := newRig(t)
	g.install(&clients, "soak.mjs")
	in, lines, wait := g.talk(length+patience, "soak.mjs", fmt.Sprint(length.Milliseconds()), fmt.Sprint(parts))
	before := g.usage()
	var first, last usage
	n := 0
	for ; lines.Scan(); n++ {
		g.nothingLeft()
		last = g.usage()
		if n == 0 {
			first = last
		}
		t.Logf("%s commands: %d kB, %d descriptors, %d goroutines", lines.Text(), last.memory, last.descriptors, last.goroutines)
		fmt.Fprintln(in, "on")
	}
	if err := wait(); err != nil || n != parts {
		t.Fatalf("%d of %d parts: %v", n, parts, err)
	}
	for end := time.Now().Add(settling); last.descriptors > before.descriptors+moreOthers || last.goroutines > before.goroutines+moreOthers; last = g.usage() {
		if time.Now().After(end) {
			t.Errorf("it had %+v before, and has %+v after all", before, last)
			break
		}
		time.Sleep(time.Second)
	}
	t.Logf("before %+v, after %+v", before, last)
	if last.memory > first.memory+moreMemory {
		t.Errorf("its memory grew from %d to %d kB", first.memory, last.memory)
	}
}
