package node

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
)

// A Phase is the progress of a node.
type Phase string

// The phases of a node.
const (
	Connecting Phase = "connecting" // to the gateway, for the first time or again
	Waiting    Phase = "waiting"    // for its approval
	Serving    Phase = "serving"    // it is a node, and connected
)

// A Status is the current status of a node.
type Status struct {
	Phase Phase     `json:"phase"`
	Since time.Time `json:"since"`
	// Code is for comparison with the code at the gateway, while the node waits.
	Code      string    `json:"code,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // of the request, by the gateway's clock; the node asks again by itself
	// Error says why the node is not in a further phase, and Hint what to do about it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// String is the status in one line.
func (s Status) String() string {
	switch {
	case s.Phase == Serving:
		return "serving commands"
	case s.Code != "":
		return "waiting to be approved, with the code " + s.Code
	case s.Error != "":
		return string(s.Phase) + ": " + s.Error
	case s.Phase == Waiting:
		return "waiting for the gateway's answer"
	}
	return cmp.Or(string(s.Phase), "starting")
}

// A Setup says where a program's policy comes from.
type Setup struct {
	Config  string `json:"config,omitempty"`  // the configuration file; empty: none
	Sandbox string `json:"sandbox,omitempty"` // the program's flag, which overrides the configuration
}

// A Record is a running program's description of itself.
type Record struct {
	PID       int       `json:"pid"`
	Version   string    `json:"version"` // of Corral
	StartedAt time.Time `json:"startedAt"`
	Setup
	Status
}

// A Report is the status of the node of a state directory.
type Report struct {
	Running bool `json:"running"`
	Ready   bool `json:"ready"` // it takes commands

	// Node is its id, and Name the gateway's name for it. Both are empty if the machine
	// has never asked.
	Node     string    `json:"node,omitempty"`
	Name     string    `json:"name,omitempty"`
	Asked    string    `json:"asked,omitempty"`   // the name that it was told to ask for when it was paired
	Key      string    `json:"key,omitempty"`     // the public one, if the machine has one
	Gateway  string    `json:"gateway,omitempty"` // as a line
	Paired   bool      `json:"paired"`            // at the last answer
	PairedAt time.Time `json:"pairedAt,omitzero"`
	EndedAt  time.Time `json:"endedAt,omitzero"` // when it stopped being a node

	Process *Record `json:"process,omitempty"` // if it runs
}

// Look returns the status of the node of a state directory. A missing node is no error.
func Look(dir string) (Report, error) {
	var g gateway
	if _, err := readJSON(filepath.Join(dir, gatewayFile), &g); err != nil {
		return Report{}, corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "cannot say how the node is: %w", err)
	}
	r := Report{Node: g.Node, Name: g.Name, Asked: g.Asked, Gateway: g.Line, Paired: g.paired(), PairedAt: g.PairedAt, EndedAt: g.EndedAt}
	var err error
	if r.Key, err = lookAtKey(dir); err != nil {
		return r, err
	}
	if r.Running, err = inUse(dir); err != nil || !r.Running {
		return r, err
	}
	if r.Process, err = readRecord(dir); err != nil {
		return r, corral.Errorf(corral.ErrUnavailable, "start the node again, which writes it anew", "cannot say how the node is: %w", err)
	}
	r.Ready = r.Process != nil && r.Process.Phase == Serving
	return r, nil
}

// lookAtKey returns the public key of a state directory; empty if there is none.
func lookAtKey(dir string) (string, error) {
	data, err := readPrivate(filepath.Join(dir, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var public string
	if err == nil {
		_, public, err = parseSeed(data)
	}
	if err != nil {
		return "", corral.Errorf(corral.ErrDenied, hintOr(err, "start the node, which says what is wrong with it"), "cannot say which key the machine has: %w", err)
	}
	return public, nil
}

// inUse reports whether a program has the directory open.
func inUse(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, corral.Errorf(corral.ErrDenied, "ask as the user that the node runs as", "cannot tell whether a node runs: %w", err)
	}
	defer f.Close()
	return filelock.TryLock(f) != nil, nil
}

// readRecord reads the record of a state directory; nil if there is none.
func readRecord(dir string) (*Record, error) {
	r := new(Record)
	there, err := readJSON(filepath.Join(dir, recordFile), r)
	if err != nil || !there {
		return nil, err
	}
	return r, nil
}
