package reach

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/filelock"
)

// A Context is a remote gateway, and the key for it.
type Context struct {
	URL         string `json:"url"`
	Fingerprint string `json:"fingerprint,omitempty"` // of its certificate; empty: one that this machine trusts
	Key         string `json:"key"`                   // the only agent that the key is for
	Agent       string `json:"agent,omitempty"`       // the only one that the key is for
}

// Contexts are the gateways that this user logged in to.
type Contexts struct {
	Current  string             `json:"current"` // empty: the gateway of this machine
	Contexts map[string]Context `json:"contexts"`
}

// LocalContext names the gateway of this machine.
const LocalContext = "local"

// EnvContext names the context to use.
const EnvContext = "CORRAL_CONTEXT"

const envStateDir = "CORRAL_STATE_DIR"

// contextsFile returns a path beside this user's configuration.
func contextsFile(getenv func(string) string) (string, error) {
	path := config.DefaultPath(func(name string) string {
		if name == "CORRAL_CONFIG" {
			return ""
		}
		return getenv(name)
	}, -1, daemon.AccountHome()) // root's file, too: it has a person's secrets
	if path == "" {
		return "", corral.Errorf(corral.ErrDir, "set HOME or XDG_CONFIG_HOME", "there is no directory for contexts")
	}
	return filepath.Join(filepath.Dir(path), "contexts.json"), nil
}

// maxContexts bounds the file, in bytes.
const maxContexts = 1 << 20

// ReadContexts reads this user's contexts. The file may be missing.
func ReadContexts(getenv func(string) string) (Contexts, error) {
	c := Contexts{Contexts: map[string]Context{}}
	path, err := contextsFile(getenv)
	if err != nil {
		return c, nil //nolint:nilerr // without a directory there are none
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return c, corral.Errorf(corral.ErrUnavailable, "check its permissions", "cannot read the contexts: %w", err)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return c, corral.Errorf(corral.ErrDenied, "chmod 600 "+path+", and have the keys in it rotated", "others may read the keys in %s (%v)", path, info.Mode().Perm())
	case info.Size() > maxContexts:
		return c, corral.Errorf(corral.ErrInvalid, "remove it, and log in again", "%s has %d bytes", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err = d.Decode(&c)
	}
	if err != nil {
		return c, corral.Errorf(corral.ErrInvalid, "correct it, or remove it and log in again", "cannot read the contexts in %s: %w", path, err)
	}
	if c.Contexts == nil {
		c.Contexts = map[string]Context{}
	}
	return c, nil
}

// ChangeContexts changes this user's contexts, one change at a time, and returns them. Only
// this user can read the file.
func ChangeContexts(ctx context.Context, getenv func(string) string, change func(*Contexts) error) (Contexts, error) {
	path, err := contextsFile(getenv)
	if err != nil {
		return Contexts{}, err
	}
	failed := func(err error) (Contexts, error) { return Contexts{}, fmt.Errorf("cannot write the contexts: %w", err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failed(err)
	}
	lock, err := filelock.Open(ctx, path+".lock")
	if err != nil {
		return failed(err)
	}
	defer lock.Close()
	c, err := ReadContexts(getenv)
	if err == nil {
		err = change(&c)
	}
	if err != nil {
		return c, err
	}
	data, err := json.MarshalIndent(c, "", " ")
	if err == nil {
		err = atomicfile.Write(path, append(data, '\n'), atomicfile.Options{Durable: true})
	}
	if err != nil {
		return failed(err)
	}
	return c, nil
}

// Names lists them, sorted.
func (c Contexts) Names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

// Get returns the context of a name; LocalContext has none.
func (c Contexts) Get(name string) (Context, bool, error) {
	if name == "" || name == LocalContext {
		return Context{}, false, nil
	}
	got, ok := c.Contexts[name]
	if !ok {
		return got, false, corral.Errorf(corral.ErrNotFound, "see which there are: corral context ls", "there is no context %.80q", name)
	}
	return got, true, nil
}

// context returns the context that commands go to; ok is false for the gateway of this
// machine.
func (p Place) context() (_ Context, ok bool, err error) {
	name := p.Getenv(EnvContext)
	if name == "" && p.Named {
		return Context{}, false, nil
	}
	all, err := ReadContexts(p.Getenv)
	if err != nil {
		return Context{}, false, err
	}
	name = cmp.Or(name, all.Current)
	return all.Get(name)
}

// Before are the variables that go before the choice of a context, and lead elsewhere.
func Before(getenv func(string) string, name string) (list []string) {
	if getenv(EnvURL) != "" {
		list = append(list, EnvURL)
	}
	switch at := getenv(EnvContext); at {
	case name:
		return list
	case "":
	default:
		list = append(list, EnvContext)
	}
	if name != LocalContext && getenv(envStateDir) != "" {
		list = append(list, envStateDir)
	}
	return list
}

// Elsewhere is the address of the gateway that commands go to, if it is not looked for in
// the state directory.
func (p Place) Elsewhere() string {
	if url := p.Getenv(EnvURL); url != "" {
		return url
	}
	c, _, _ := p.context() // commands say what is wrong with it
	return c.URL
}

// Options returns the options of a client for it.
func (c Context) Options() client.Options {
	return client.Options{URL: c.URL, Token: c.Key, Fingerprint: c.Fingerprint, Agent: c.Agent}
}
