package approval

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// flushAfter is how long the uses of rules are collected before they are
// written.
const flushAfter = time.Minute

const (
	maxLastCommand = 500  // characters of a command that are kept
	maxUses        = 1000 // entries whose last use is not yet written
)

// use is the last use of a rule.
type use struct {
	at       time.Time
	command  string
	resolved string
}

// Used notes that rules of this file allowed a command. It is written later, at the latest
// by Close; a failure is logged.
func (f *File) Used(command string, d policy.Decision) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return
	}
	for _, s := range d.Segments {
		if s.Rule != nil {
			f.note(*s.Rule, use{at: now, command: command, resolved: s.Path})
		}
	}
	if d.Rule != nil {
		f.note(*d.Rule, use{at: now, command: command})
	}
	if len(f.uses) > 0 && f.timer == nil {
		f.timer = time.AfterFunc(flushAfter, f.flushLogged)
	}
}

// note adds a use of a rule of this file. mu is held.
func (f *File) note(r policy.Rule, u use) {
	if r.Source.File != f.Path() || r.Action != policy.Allow {
		return
	}
	u.command = oneLine(u.command, maxLastCommand)
	if r.Command != "" {
		u.command = "" // the entry has only a digest, so the text must not be kept
	}
	key := listKey(r.Source.Key) + " " + fingerprint(r)
	if _, there := f.uses[key]; there || len(f.uses) < maxUses {
		f.uses[key] = u
	}
}

// Flush writes the last uses of rules that are not yet written. If another call is writing
// them, it waits for it.
func (f *File) Flush() error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	f.mu.Lock()
	uses := f.uses
	f.uses = map[string]use{}
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	f.mu.Unlock()
	if len(uses) == 0 {
		return nil
	}
	return f.edit(func(d *document) error {
		err := errSame
		for _, p := range d.agents {
			for _, e := range p.entries {
				if u, ok := uses[listKey(e.rule.Source.Key)+" "+fingerprint(e.rule)]; ok {
					e.node.used(u)
					err = nil
				}
			}
		}
		return err
	})
}

func (f *File) flushLogged() {
	if err := f.Flush(); err != nil {
		f.log.Warn("cannot write when rules were used last", "file", f.Path(), "error", err)
	}
}

// Close writes what is not yet written. The file can still be read and changed.
func (f *File) Close() error {
	f.mu.Lock()
	f.shut = true
	f.mu.Unlock()
	return f.Flush()
}

// used notes a use in an entry, unless the entry has a later one.
func (n *node) used(u use) {
	if n.members == nil { // a pattern alone
		pattern := &node{offset: n.offset, raw: n.raw}
		n.raw, n.members = nil, []member{{"pattern", pattern}}
	}
	var last int64
	if at := n.get("lastUsedAt"); at != nil && json.Unmarshal(at.raw, &last) == nil && last > u.at.UnixMilli() {
		return
	}
	if id, _ := n.get("id").text(); id == "" {
		n.set("id", newNode(corral.NewID()))
	}
	n.set("lastUsedAt", newNode(u.at.UnixMilli()))
	if u.command != "" {
		n.set("lastUsedCommand", newNode(u.command))
	}
	if u.resolved != "" {
		n.set("lastResolvedPath", newNode(u.resolved))
	}
}

// fingerprint identifies a rule of a list.
func fingerprint(r policy.Rule) string {
	command := ""
	if r.Command != "" {
		command = commandPattern(r.Command)
	}
	return string(newNode([]any{r.Pattern, r.Args, r.ArgPattern, r.SHA256, command, r.Env}).raw)
}

// commandPattern is the pattern that stands for a command, or its digest.
func commandPattern(command string) string {
	if !strings.HasPrefix(command, "sha256:") {
		command = policy.CommandDigest(command)
	}
	return "=command:" + strings.TrimPrefix(command, "sha256:")
}

// listKey is the key of the list that an entry with this key is in.
func listKey(key string) string {
	if i := strings.LastIndexByte(key, '['); i >= 0 {
		return key[:i]
	}
	return key
}
