package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/corral-exec/corral"
)

// Recover undoes patches of a workspace whose program was killed while it applied them,
// and removes their journals. Each call of the tool does this first. A program calls it at
// its start for the workspaces that it serves, so that no patch stays half applied for
// long.
//
// The warnings name files that other programs have changed since. These files are left
// alone.
func Recover(ctx context.Context, t Target) (warnings []string, err error) {
	ws, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	return recoverAll(ctx, ws)
}

func recoverAll(ctx context.Context, ws workspace) (warnings []string, err error) {
	names, err := ws.journals(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot look for interrupted patches: %w", err)
	}
	for _, name := range names {
		var kept keptError
		switch err := recoverOne(ctx, ws, name); {
		case errors.As(err, &kept):
			warnings = append(warnings, fmt.Sprintf("An interrupted patch was undone, except for files that another program changed since: %s.", strings.Join(kept.names, ", ")))
		case err != nil:
			return warnings, corral.Errorf(corral.ErrUnavailable, fmt.Sprintf("look at the files, and remove the directory %s/%s", ws.roots()[0], name), "an interrupted patch cannot be undone: %w", err)
		}
	}
	return warnings, nil
}

func recoverOne(ctx context.Context, ws workspace, name string) error {
	stats, err := ws.stat(ctx, name)
	if err != nil {
		return err
	}
	// A directory with the name of a journal that we did not make is ignored.
	if s := stats[0]; s.kind != kindDir || !s.made {
		return nil
	}
	j := &journal{ws: ws, name: name}
	text, _, err := ws.read(ctx, name+"/"+recordName, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return j.clean(ctx)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &j.rec); err != nil {
		return fmt.Errorf("its record is not JSON: %w", err)
	}
	if err := j.rec.check(); err != nil {
		return err
	}
	return j.undo(ctx)
}

// check returns an error if commit could not have written the record.
func (r record) check() error {
	if r.Version != recordVersion {
		return fmt.Errorf("its record has version %d, and this program knows %d", r.Version, recordVersion)
	}
	names := append([]string(nil), r.Dirs...)
	for _, c := range r.Changes {
		names = append(names, c.Name)
	}
	for _, name := range names {
		if name == "." || !fs.ValidPath(name) || !isLocal(name) || strings.HasPrefix(name, journalPrefix) {
			return fmt.Errorf("its record names %q", cut(name))
		}
	}
	return nil
}
