package guard

import (
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

// Overrides are the settings that /exec made, by agent. They are state, in a file of
// their own, and never part of the configuration.
type Overrides struct {
	path string

	mu      sync.Mutex
	table   map[string]config.Overrides
	damaged []byte // the content of a file that cannot be parsed
	why     error  // why it cannot be read; nil: nothing is damaged
}

// unknown is the key for all agents that a damaged file may have had settings of.
const unknown = "*"

// OpenOverrides reads the file at path, if there is one. It changes nothing. A damaged
// file may have been stricter than the configuration. So every command then needs an
// approval, until the overrides of its agent are set anew.
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

// valid returns the table, or an error if a value in it is not valid.
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

// Mend moves a damaged file aside and writes the settings that now count in its place.
// The error says what was damaged, where it is now, and which settings count; the caller
// can go on. Nil: nothing was damaged.
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

// keepAside moves the damaged file aside. mu is held.
func (o *Overrides) keepAside() (string, error) {
	dir, err := os.OpenRoot(filepath.Dir(o.path))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	aside, err := journal.KeepAside(dir, filepath.Base(o.path), o.damaged)
	if err == nil && o.damaged == nil { // the file could not be read at all, so keep the file itself
		err = os.Rename(o.path, aside)
	}
	return aside, err
}

// Get returns the overrides of an agent.
func (o *Overrides) Get(agent string) config.Overrides {
	o.mu.Lock()
	defer o.mu.Unlock()
	if own, ok := o.table[agent]; ok {
		return own
	}
	return o.table[unknown]
}

// Set replaces the overrides of an agent. An empty field overrides nothing.
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
	if err := journal.WriteFile(o.path, map[string]any{"agents": table}, atomicfile.Options{Durable: true}); err != nil {
		return fmt.Errorf("cannot write the session overrides: %w", err)
	}
	return nil
}
