package api

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

// Start is the body of POST /v1/sessions: a corral.Command in JSON, with readable
// durations, and the settings of the session.
type Start struct {
	corral.Command
	Timeout Duration `json:"timeout,omitempty"`
	Grace   Duration `json:"grace,omitempty"`

	// Background may only be true: a session that is started here is in the background
	// from the start.
	Background *bool `json:"background,omitempty"`
	// NotifyOnExit: the end is an event.
	NotifyOnExit bool `json:"notifyOnExit,omitempty"`

	// Binary replaces values that JSON, which is text, cannot hold.
	Binary *Binary `json:"binary,omitempty"`
}

// Binary holds fields of a command that are not UTF-8, in base64. A field that
// is set here must not be set in the command.
type Binary struct {
	Shell       []byte   `json:"command,omitempty"`
	Args        [][]byte `json:"args,omitempty"`
	Dir         []byte   `json:"workdir,omitempty"`
	Env         [][]byte `json:"env,omitempty"` // NAME=value
	PathPrepend [][]byte `json:"pathPrepend,omitempty"`
}

// NewStart returns the request to start cmd.
func NewStart(cmd corral.Command, notify bool) Start {
	s := Start{Command: cmd, Timeout: Duration(cmd.Timeout), Grace: Duration(cmd.Grace), NotifyOnExit: notify}
	var b Binary
	used := false
	if !utf8.ValidString(cmd.Shell) {
		b.Shell, s.Shell, used = []byte(cmd.Shell), "", true
	}
	if !utf8.ValidString(cmd.Dir) {
		b.Dir, s.Dir, used = []byte(cmd.Dir), "", true
	}
	if slices.ContainsFunc(cmd.Args, invalidText) {
		b.Args, s.Args, used = toBytes(cmd.Args), nil, true
	}
	if slices.ContainsFunc(cmd.PathPrepend, invalidText) {
		b.PathPrepend, s.PathPrepend, used = toBytes(cmd.PathPrepend), nil, true
	}
	for k, v := range cmd.Env {
		if invalidText(k) || invalidText(v) {
			s.Env, used = nil, true
			for _, k := range slices.Sorted(maps.Keys(cmd.Env)) {
				b.Env = append(b.Env, []byte(k+"="+cmd.Env[k]))
			}
			break
		}
	}
	if used {
		s.Binary = &b
	}
	return s
}

// Decode returns the command. It is not validated.
func (s *Start) Decode() (corral.Command, error) {
	cmd := s.Command
	cmd.Timeout, cmd.Grace = time.Duration(s.Timeout), time.Duration(s.Grace)
	b := s.Binary
	if b == nil {
		return cmd, nil
	}
	twice := func(field string) error {
		return corral.Errorf(corral.ErrInvalid, "set it once", "%s is given as text and in binary", field)
	}
	switch {
	case len(b.Shell) > 0 && cmd.Shell != "":
		return cmd, twice("command")
	case len(b.Dir) > 0 && cmd.Dir != "":
		return cmd, twice("workdir")
	case len(b.Args) > 0 && len(cmd.Args) > 0:
		return cmd, twice("args")
	case len(b.Env) > 0 && len(cmd.Env) > 0:
		return cmd, twice("env")
	case len(b.PathPrepend) > 0 && len(cmd.PathPrepend) > 0:
		return cmd, twice("pathPrepend")
	}
	if len(b.Shell) > 0 {
		cmd.Shell = string(b.Shell)
	}
	if len(b.Dir) > 0 {
		cmd.Dir = string(b.Dir)
	}
	if len(b.Args) > 0 {
		cmd.Args = toStrings(b.Args)
	}
	if len(b.PathPrepend) > 0 {
		cmd.PathPrepend = toStrings(b.PathPrepend)
	}
	if len(b.Env) > 0 {
		cmd.Env = make(map[string]string, len(b.Env))
		for _, kv := range b.Env {
			k, v, ok := strings.Cut(string(kv), "=")
			if _, again := cmd.Env[k]; !ok || again {
				return cmd, corral.Errorf(corral.ErrInvalid, "write NAME=value, each name once", "binary.env holds %q", kv)
			}
			cmd.Env[k] = v
		}
	}
	return cmd, nil
}

func invalidText(s string) bool { return !utf8.ValidString(s) }

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
