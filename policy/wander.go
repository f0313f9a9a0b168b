package policy

import (
	"path/filepath"
	"slices"
	"strings"
)

// maxPlaces bounds the directories in which a command is thought to be.
const maxPlaces = 64

// wander finds where programs with relative paths may be besides where they
// are if every cd fails: at all directories that some cd of the command leads
// to. What cannot be told is in which of them it is when, so that only rules
// that forbid look there.
func (r *reading) wander() {
	places := []string{filepath.Clean(r.req.Dir)}
	for _, c := range r.calls {
		for _, seg := range c.segments {
			to := destination(seg.Words, r.req.Home)
			if to == "" {
				continue
			}
			for _, dir := range places { // those that there were before
				dir = from(dir, to)
				info, err := r.view.Stat(dir)
				if err == nil && info.IsDir() && len(places) < maxPlaces && !slices.Contains(places, dir) {
					places = append(places, dir)
				}
			}
		}
	}
	for _, c := range r.calls {
		for _, seg := range c.segments {
			w := seg.Words[0]
			if !w.Static || filepath.IsAbs(w.Text) || !strings.Contains(w.Text, "/") && !r.relativePath() {
				continue
			}
			for _, dir := range places {
				if got := r.look(dir, w.Text); got.path != "" && got.path != seg.Path {
					seg.elsewhere = append(seg.elsewhere, got.path, got.real)
				}
			}
		}
	}
}

// destination is where a cd leads to, from where it is if that is relative;
// empty if the words are none, or it cannot be told.
func destination(words []Word, home string) string {
	if words[0].Text != "cd" && words[0].Text != "pushd" {
		return ""
	}
	for i, w := range words[1:] {
		text := strings.Trim(w.Text, `"`)
		rest, homely := strings.CutPrefix(text, "~")
		for _, v := range []string{"$HOME", "${HOME}"} {
			if !homely {
				rest, homely = strings.CutPrefix(text, v)
			}
		}
		switch {
		case w.Static && w.Text == "-": // where it was before
			return ""
		case w.Static && w.Text != "" && w.Text[0] == '-' && i < 2: // an option
			continue
		case w.Static:
			return w.Text
		case homely && (rest == "" || rest[0] == '/') && !strings.ContainsAny(rest, special):
			return home + rest
		}
		return ""
	}
	return home
}
