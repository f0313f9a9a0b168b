//go:build e2e && linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// Everything is measured once, and every place gives a value.
func TestQuick(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // after all else that is cleaned up
	file := filepath.Join(t.TempDir(), "bench.json")
	state := t.TempDir()
	o := options{quick: true, containerd: enginetest.Containerd(t).Address(), json: file, image: images.Busybox, state: state, warden: wardenbintest.Build(t), corral: built.Program(t, "cmd/corral")}
	var table bytes.Buffer
	if err := run(t.Context(), o, &table); err != nil {
		t.Fatal(err)
	}
	var r report
	if b, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	} else if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	// Memory, policy and nodes are beside them; there is no E2B daemon here, and the
	// image is not Debian's.
	if want := len(names()) - 3 - 3; len(r.Results) != want {
		t.Errorf("%d results, want %d", len(r.Results), want)
	}
	for _, res := range r.Results {
		for _, p := range res.Places {
			if p.N < 1 || p.Min <= 0 || p.P50 < p.Min || p.P99 < p.P50 {
				t.Errorf("%s: %s: %+v", res.Name, p.Place, p.summary)
			}
			if !bytes.Contains(table.Bytes(), []byte(p.Place)) {
				t.Errorf("the table does not mention %s", p.Place)
			}
		}
	}
	for _, m := range r.Memory {
		if m.Private <= 0 || m.Resident < m.Private {
			t.Errorf("memory: %+v", m)
		}
	}
	if len(r.Memory) == 0 || len(r.Checks) == 0 {
		t.Errorf("%d figures of memory and %d checks", len(r.Memory), len(r.Checks))
	}
	for _, c := range r.Checks {
		// A gateway may need less after ten sessions or nodes than before, and
		// a node be faster for once.
		if c.Value <= 0 && !strings.Contains(c.What, " idle ") && !strings.Contains(c.What, "−") {
			t.Errorf("check %+v", c)
		}
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
