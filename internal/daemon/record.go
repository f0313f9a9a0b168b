package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

// recordFile is what a gateway says of itself, in its state directory.
const recordFile = "gateway.json"

// A Record tells Corral's other commands about the gateway of a state
// directory. It may be left over from a gateway that was killed: whether one
// runs is asked at its socket.
type Record struct {
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
	Socket    string    `json:"socket,omitempty"`
	Listen    []string  `json:"listen,omitempty"` // addresses of TCP
	Nodes     []string  `json:"nodes,omitempty"`  // where nodes connect to; empty: there are none

	// How commands run that say nothing of it.
	Sandbox       string `json:"sandbox"` // off, all or required
	AllowElevated bool   `json:"allowElevated"`
	Image         string `json:"image"`            // of sandboxes
	Engine        string `json:"engine,omitempty"` // that makes them, as it was configured; earlier versions did not say
	Workspace     string `json:"workspace"`        // on this machine
}

// Alone reports whether it is that of corral mcp, which listens nowhere.
func (r Record) Alone() bool { return r.Socket == "" && len(r.Listen) == 0 }

// LoneRecord is the record of a corral mcp that runs as the gateway of a state
// directory; nil if there is none.
func LoneRecord(dir string) *Record {
	r, err := ReadRecord(dir)
	if err != nil || r == nil || !r.Alone() || r.PID <= 0 || !alive(r.PID) {
		return nil // of a record that cannot be read, a gateway says so
	}
	return r
}

// LoneHint is what to do where corral mcp is the gateway.
const LoneHint = "end it, start a gateway that serves all of them (corral gateway), and then corral mcp again; what runs goes on"

// Write writes it into a state directory.
func (r Record) Write(dir string) error {
	if err := journal.WriteFile(filepath.Join(dir, recordFile), r, atomicfile.Options{}); err != nil {
		return fmt.Errorf("cannot write %s: %w", recordFile, err)
	}
	return nil
}

// maxRecord bounds a record, in bytes.
const maxRecord = 64 << 10

// ReadRecord reads the record of a state directory; nil if there is none.
func ReadRecord(dir string) (*Record, error) {
	path := filepath.Join(dir, recordFile)
	r := new(Record)
	err := journal.ReadFile(path, maxRecord, r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "restart the gateway, which writes it anew", "cannot read what the gateway says of itself in %s: %w", path, err)
	}
	return r, nil
}

// removeRecord removes it, if it is still ours.
func removeRecord(dir string, pid int) error {
	r, err := ReadRecord(dir)
	if err != nil || r == nil || r.PID != pid {
		return err
	}
	return os.Remove(filepath.Join(dir, recordFile))
}
