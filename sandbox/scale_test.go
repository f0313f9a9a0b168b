package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What it costs to list sandboxes, with what runs in them, from what is noted of them.
func BenchmarkScaleSandboxes(b *testing.B) {
	for _, n := range []int{20, 200, 2_000} {
		b.Run(fmt.Sprintf("sandboxes=%d", n), func(b *testing.B) {
			state := b.TempDir()
			for i := range n {
				name := fmt.Sprintf("agent-%d", i)
				box := boxRecord{Version: storeVersion, Sandbox: name, Box: Box{ID: newBoxID(name), Container: "corral-" + name, Engine: "docker", Image: "i", Driver: DriverFDs, Created: time.Now()}}
				if err := os.MkdirAll(filepath.Dir(boxDir(state, box.ID)), 0o700); err != nil {
					b.Fatal(err)
				}
				if err := saveBox(state, box); err != nil {
					b.Fatal(err)
				}
				if err := os.MkdirAll(sandboxDir(state, name), 0o700); err != nil {
					b.Fatal(err)
				}
				if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: name, Boxes: []string{box.ID}}, false); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				list, err := Sandboxes(state)
				if err != nil || len(list) != n {
					b.Fatalf("%d sandboxes, %v", len(list), err)
				}
				for _, s := range list {
					if _, err := Running(state, s.Name); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/sandbox")
		})
	}
}
