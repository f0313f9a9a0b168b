package escape

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// SiteVar is the environment variable that passes the [Site] to a sandbox, as JSON.
const SiteVar = "CORRAL_ESCAPE_SITE"

// Outcome is the outcome of a try.
type Outcome string

const (
	Held        Outcome = "held"
	Escaped     Outcome = "escaped"
	Inside      Outcome = "inside"      // it succeeded, and reached nothing outside; the detail says why
	Unsupported Outcome = "unsupported" // it could not be tried; the detail says why
)

// A Result is the result of a try.
type Result struct {
	ID      string  `json:"id"`
	Tries   string  `json:"tries"` // what it does, as a clause
	Why     string  `json:"why"`   // its background: a CVE, an interface
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail"` // what it saw
}

// Bounds of a sandbox's output, in bytes and in results.
const (
	maxResultBytes = 256 << 10
	maxResults     = 500
	maxText        = 300
)

// ParseResults reads the program's output, a JSON object a line. Output of a sandbox is
// hostile: it is bounded, and must be well-formed.
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

// A Site describes the targets on the host. If a field is empty, there is no such target,
// and the tries that need it cannot be made.
type Site struct {
	// Sum is the SHA-256, in hexadecimal, of the secret that everything here
	// holds.
	Sum string `json:"sum"`

	// File is a file of the host, which all users there may read. Handle is its
	// file handle, "TYPE:HEX".
	File   string `json:"file,omitempty"`
	Handle string `json:"handle,omitempty"`

	// Files in the sandbox's workspace, whose path there is Workspace: Locked can be
	// read by root alone and Foreign by another user. SetUID and FileCap are copies
	// of this program: one owned by root with the set-user-ID bit, one with a
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

// Process describes a canary process on the host. It runs as the user of the sandbox's
// commands.
type Process struct {
	PID      int      `json:"pid,omitempty"`
	Memory   uint64   `json:"memory,omitempty"`   // address of the secret in its memory
	Length   int      `json:"length,omitempty"`   // length of the secret
	Variable string   `json:"variable,omitempty"` // variable of its environment with the secret
	TCP      []string `json:"tcp,omitempty"`      // addresses on which it sends the secret
	UDP      string   `json:"udp,omitempty"`      // address that answers with it
	Abstract string   `json:"abstract,omitempty"` // Unix socket without a file
	Shm      int      `json:"shm,omitempty"`      // key of System V shared memory
	Queue    string   `json:"queue,omitempty"`    // POSIX message queue
	ShmFile  string   `json:"shmFile,omitempty"`  // file in /dev/shm
	Key      string   `json:"key,omitempty"`      // in its user's keyring
}

// NewSecret makes a secret and its Sum.
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
