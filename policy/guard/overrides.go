package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/strictjson"
	"github.com/corral-exec/corral/policy"
)

// Overrides are what /exec set, by agent. They are state, in a file of their
// own, and never part of the configuration.
type Overrides struct {
	path string

	mu      sync.Mutex
	table   map[string]config.Overrides
	damaged []byte // what the file said that cannot be read
	why     error  // nil: nothing is damaged
}

// unknown stands in place of an agent's name, for all agents that a damaged file may
// have had something about.
const unknown = "*"

// OpenOverrides reads the file at path, which need not be there. Nothing is changed by
// it. What cannot be read may have asked for more than the configuration does; so
// every command is asked about then, until an agent's overrides are set anew.
func OpenOverrides(path string) (*Overrides, error) {
	o := &Overrides{path: path, table: map[string]config.Overrides{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		o.table, err = parseOverrides(b)
	}
	if err != nil {
		o.damaged, o.why = b, err
		o.table = map[string]config.Overrides{unknown: {Ask: policy.AskAlways}}
	}
	return o, nil
}

// parseOverrides reads a file. One of an earlier version has no checksum.
func parseOverrides(b []byte) (map[string]config.Overrides, error) {
	var file struct {
		Agents map[string]config.Overrides `json:"agents"`
		Sum    string                      `json:"sum"`
	}
	line := trimmed(b)
	if signed, err := journal.Check(line); err != nil {
		return nil, err
	} else if signed {
		err = strictjson.Decode(line, &file)
		return valid(file.Agents, err)
	}
	table := map[string]config.Overrides{}
	err := strictjson.Decode(b, &table)
	return valid(table, err)
}

func trimmed(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}

// valid is a table in which every value is valid.
func valid(table map[string]config.Overrides, err error) (map[string]config.Overrides, error) {
	for agent, o := range table {
		for key, value := range map[string]string{"host": string(o.Host), "security": string(o.Security), "ask": string(o.Ask)} {
			if value == "" {
				continue
			}
			if _, _, bad := (config.Overrides{}).Apply(key + "=" + value); bad != nil {
				err = errors.Join(err, fmt.Errorf("agent %q: %w", agent, bad))
			}
		}
	}
	if err == nil && table == nil {
		table = map[string]config.Overrides{}
	}
	return table, err
}

// Mend keeps a damaged file aside and writes what counts instead of it. The error says
// what was damaged, where it is now, and what that means; it is no reason not to go on.
// Nil: nothing was damaged.
func (o *Overrides) Mend() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil {
		return nil
	}
	aside, err := o.keepAside()
	if err == nil {
		err = o.write(o.table)
	}
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "remove "+o.path+" or make it readable",
			"the session overrides in %s cannot be read, and every command is asked about: %w", o.path, errors.Join(o.why, err))
	}
	why := o.why
	o.why, o.damaged = nil, nil
	return corral.Errorf(corral.ErrUnavailable, "set them anew for each agent (corral session set, or reset), or stop the gateway and remove "+o.path,
		"the session overrides in %s could not be read and are kept in %s; every command is asked about: %w", o.path, aside, why)
}

// keepAside moves a file away that cannot be read. mu is held.
func (o *Overrides) keepAside() (string, error) {
	dir, err := os.OpenRoot(filepath.Dir(o.path))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	aside, err := journal.KeepAside(dir, filepath.Base(o.path), o.damaged)
	if err == nil && o.damaged == nil { // it could not be read at all: what it says is still in it
		err = os.Rename(o.path, aside)
	}
	return aside, err
}

// Get returns an agent's.
func (o *Overrides) Get(agent string) config.Overrides {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own, ok := o.table[agent]; ok {
		return own
	}
	return o.table[unknown]
}

// Set replaces an agent's. What is empty is not overridden.
func (o *Overrides) Set(agent string, to config.Overrides) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := map[string]config.Overrides{}
	for a, v := range o.table {
		next[a] = v
	}
	next[agent] = to
	if _, some := next[unknown]; to == (config.Overrides{}) && !some {
		delete(next, agent)
	}
	if o.why != nil {
		if _, err := o.keepAside(); err != nil {
			return fmt.Errorf("cannot write the session overrides: %w", err)
		}
		o.why, o.damaged = nil, nil
	}
	if err := o.write(next); err != nil {
		return err
	}
	o.table = next
	return nil
}

func (o *Overrides) write(table map[string]config.Overrides) error {
	b, err := json.Marshal(map[string]any{"agents": table})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(o.path, append(journal.Sign(b), '\n'), atomicfile.Options{Durable: true}); err != nil {
		return fmt.Errorf("cannot write the session overrides: %w", err)
	}
	return nil
}
