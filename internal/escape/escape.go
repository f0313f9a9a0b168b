package escape

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// SiteVar is the environment variable in which a sandbox is told its [Site], as
// JSON.
const SiteVar = "CORRAL_ESCAPE_SITE"

// Outcome is how a try turned out.
type Outcome string

const (
	Held        Outcome = "held"
	Escaped     Outcome = "escaped"
	Inside      Outcome = "inside"      // it succeeded, and reached nothing outside; the detail says why
	Unsupported Outcome = "unsupported" // it could not be tried; the detail says why
)

// A Result is what became of a try.
type Result struct {
	ID      string  `json:"id"`
	Tries   string  `json:"tries"` // what it does, as a clause
	Why     string  `json:"why"`   // what is known of it: a CVE, an interface
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail"` // what it saw
}

// maxResults bounds what is read of a sandbox, in bytes and in results.
const (
	maxResultBytes = 256 << 10
	maxResults     = 500
	maxText        = 300
)

// ParseResults reads what the program printed, a JSON object a line. What comes
// from a sandbox is hostile: it is bounded, and must be well-formed.
func ParseResults(out []byte) ([]Result, error) {
	if len(out) > maxResultBytes {
		return nil, fmt.Errorf("the sandbox answered with %d bytes, more than %d", len(out), maxResultBytes)
	}
	var all []Result
	for line := range bytes.Lines(out) {
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("the sandbox answered %.80q, which is no result: %w", line, err)
		}
		switch r.Outcome {
		case Held, Escaped, Inside, Unsupported:
		default:
			return nil, fmt.Errorf("the sandbox answered with an outcome %.80q", r.Outcome)
		}
		if len(r.ID) > maxText || len(r.Tries) > maxText || len(r.Why) > maxText || len(r.Detail) > maxText || len(all) == maxResults {
			return nil, fmt.Errorf("the sandbox answered with more than fits: %.80q", r.ID)
		}
		all = append(all, r)
	}
	return all, nil
}

// A Site is what the host has laid out. A field that is empty is not there, and
// what needs it cannot be tried.
type Site struct {
	// Sum is the SHA-256, in hexadecimal, of the secret that everything here
	// holds.
	Sum string `json:"sum"`

	// File is a file of the host, which all users there may read. Handle is its
	// file handle, "TYPE:HEX".
	File   string `json:"file,omitempty"`
	Handle string `json:"handle,omitempty"`

	// Files in the sandbox's workspace, which is Workspace there: Locked can be
	// read by root alone and Foreign by another user; SetUID and FileCap are
	// this very program as root's with the set-user-ID bit, and with a
	// capability.
	Workspace string `json:"workspace,omitempty"`
	Locked    string `json:"locked,omitempty"`
	Foreign   string `json:"foreign,omitempty"`
	SetUID    string `json:"setuid,omitempty"`
	FileCap   string `json:"fileCap,omitempty"`

	// Disk is the host's first block device, and Misc some of its character
	// devices, as "MAJOR:MINOR".
	Disk string   `json:"disk,omitempty"`
	Misc []string `json:"misc,omitempty"`

	Process
}

// Process is what a canary process on the host shows. It has the user of the
// sandbox's commands.
type Process struct {
	PID      int      `json:"pid,omitempty"`
	Memory   uint64   `json:"memory,omitempty"`   // where it has the secret
	Length   int      `json:"length,omitempty"`   // how long the secret is
	Variable string   `json:"variable,omitempty"` // of its environment
	TCP      []string `json:"tcp,omitempty"`      // addresses on which it tells the secret
	UDP      string   `json:"udp,omitempty"`      // address that answers with it
	Abstract string   `json:"abstract,omitempty"` // Unix socket without a file
	Shm      int      `json:"shm,omitempty"`      // key of System V shared memory
	Queue    string   `json:"queue,omitempty"`    // POSIX message queue
	ShmFile  string   `json:"shmFile,omitempty"`  // file in /dev/shm
	Key      string   `json:"key,omitempty"`      // in its user's keyring
}

// NewSecret makes a secret, and the Sum by which it is known.
func NewSecret() (secret, sum string) {
	secret = "corral-canary-" + rand.Text()
	return secret, Sum([]byte(secret))
}

// Sum is the hash of a secret.
func Sum(secret []byte) string {
	h := sha256.Sum256(bytes.TrimRight(secret, "\x00\n"))
	return hex.EncodeToString(h[:])
}

// Is reports whether b is the secret.
func (s *Site) Is(b []byte) bool { return len(b) > 0 && Sum(b) == s.Sum }
