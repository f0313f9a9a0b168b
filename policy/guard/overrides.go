package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/atomicfile"
)

// Overrides are what /exec set, by agent. They are state, in a file of their
// own, and never part of the configuration.
type Overrides struct {
	path string

	mu    sync.Mutex
	table map[string]config.Overrides
}

// OpenOverrides reads the file at path, which need not be there.
func OpenOverrides(path string) (*Overrides, error) {
	o := &Overrides{path: path, table: map[string]config.Overrides{}}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read the session overrides: %w", err)
	}
	if err := json.Unmarshal(b, &o.table); err != nil {
		return nil, fmt.Errorf("the session overrides in %s are damaged; remove the file to be without: %w", path, err)
	}
	return o, nil
}

// Get returns an agent's.
func (o *Overrides) Get(agent string) config.Overrides {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.table[agent]
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
	if to == (config.Overrides{}) {
		delete(next, agent)
	}
	b, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(o.path, append(b, '\n'), atomicfile.Options{Durable: true}); err != nil {
		return fmt.Errorf("cannot write the session overrides: %w", err)
	}
	o.table = next
	return nil
}
