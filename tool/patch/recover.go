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

// Recover undoes patches that were being applied to a workspace when their
// program was killed, and removes what they left. Each call of the tool does it
// first; a program that starts calls it for the workspaces it serves, so that a patch
// is not seen half applied for long.
//
// The warnings name files that others have changed since and that were left
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
	// What looks like a journal and was not made by us is not followed.
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

// check makes sure that a record is one that commit writes.
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
