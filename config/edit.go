package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/internal/state/atomicfile"
)

// An Edit changes a file by one of its keys. The rest of the file stays as it is,
// with its comments. If the result has a mistake, nothing is written.
type Edit struct {
	File string
	// Version is the one that the file is to have, see [Config.Version]. If it has
	// another by now, the error is an ErrConflict. Empty: any.
	Version string
}

// Set gives a key a value, which is JSON5, and returns the configuration that comes
// of it. Where the key takes a string, quotes may be left out. A file that is not
// there is made.
func (e Edit) Set(key, value string) (*Config, error) {
	return e.change(key, func(doc *json5.Document, path json5.Path, s *jsonschema.Schema) ([]byte, error) {
		return doc.Set(path, quoted(value, s))
	})
}

// Unset removes a key, or an element of a list. One that is not there is no mistake.
func (e Edit) Unset(key string) (*Config, error) {
	return e.change(key, func(doc *json5.Document, path json5.Path, _ *jsonschema.Schema) ([]byte, error) {
		return doc.Remove(path)
	})
}

// quoted is a value as JSON5: what is no JSON5, or no string where only a
// string can be, is a string without its quotes.
func quoted(value string, s *jsonschema.Schema) string {
	doc, err := json5.Parse([]byte(value))
	isString := slices.Contains(types(s), "string")
	if isString && (err != nil && !strings.ContainsAny(value, "\"'{}[]\n") || err == nil && !slices.Contains(types(s), typeOf(doc.Root, s))) {
		return string((&json5.Value{Kind: json5.String, String: value}).JSON())
	}
	return value
}

func (e Edit) change(key string, edit func(*json5.Document, json5.Path, *jsonschema.Schema) ([]byte, error)) (*Config, error) {
	path, err := json5.ParsePath(key)
	if err == nil && len(path) == 0 {
		err = errors.New("the key is missing")
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "write it like agents.list[0].tools.exec.node", "%w", err)
	}
	s, err := lookup(path)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "corral config schema lists the keys", "%w", err)
	}
	file, err := real(e.File)
	if err != nil {
		return nil, err
	}
	old, err := read(file)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		old, err = []byte("{\n}\n"), nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := Parse(file, old); err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "correct it first, with an editor", "%w", err)
	}
	if e.Version != "" && (missing && e.Version != version([]byte("{}")) || !missing && e.Version != version(old)) {
		return nil, corral.Errorf(corral.ErrConflict, "look at it again, and then change it", "the configuration %s was changed meanwhile; nothing was written", file)
	}
	doc, err := json5.Parse(old)
	if err != nil {
		return nil, err
	}
	data, err := edit(doc, path, s)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "", "cannot change %s: %w", key, err)
	}
	c, err := Parse(file, data)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "nothing was written", "%w", err)
	}
	if bytes.Equal(old, data) && !missing {
		return c, nil
	}
	return c, write(file, data, old, missing)
}

// Create writes a new file. One that is there stays: the error is then an
// ErrDenied.
func Create(file string, data []byte) (*Config, error) {
	c, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "give --config a file in a directory that can be written", "cannot make the configuration: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, corral.Errorf(corral.ErrDenied, "change it with corral config set, or move it away", "there is a configuration already: %s", file)
	case err != nil:
		return nil, corral.Errorf(corral.ErrUnavailable, "give --config a file in a directory that can be written", "cannot make the configuration: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write the configuration %s: %w", file, err), os.Remove(file))
	}
	return c, nil
}

// real is the file behind symbolic links, which are to stay.
func real(file string) (string, error) {
	target, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the configuration: %w", err)
	}
	return target, nil
}

// write replaces a file by one with the same mode, as a whole or not at all.
func write(file string, data, old []byte, missing bool) error {
	if missing {
		_, err := Create(file, data)
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("cannot write the configuration: %w", err)
	}
	err = atomicfile.Write(file, data, atomicfile.Options{Mode: info.Mode().Perm(), Durable: true, Prepare: func(f *os.File) error {
		if err := keepOwner(f, info); err != nil {
			return err
		}
		// A change that another program made since it was read is not to be lost.
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, old) {
			return errors.Join(err, errChanged)
		}
		return nil
	}})
	switch {
	case errors.Is(err, errChanged):
		return corral.Errorf(corral.ErrUnavailable, "try again", "cannot write the configuration %s: %w", file, err)
	case err != nil:
		return corral.Errorf(corral.ErrUnavailable, "see whether this user may write in its directory, and whether the disk is full", "cannot write the configuration %s: %w", file, err)
	}
	return nil
}

var errChanged = errors.New("it was changed meanwhile")
