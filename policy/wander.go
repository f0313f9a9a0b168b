package policy

import (
	"path/filepath"
	"slices"
	"strings"
)

// maxPlaces is the most directories that a command is followed to.
const maxPlaces = 64

// followDirectories looks for programs with relative paths in all directories that some cd
// of the command leads to. (Segment.Path has the file that runs if every cd fails.)
// Which directory a program starts in is not known. So these paths count only for
// deny and ask rules.
func (r *reading) followDirectories() {
	places := []string{filepath.Clean(r.req.Dir)}
	for _, c := range r.calls {
		for _, seg := range c.segments {
			to := destination(seg.Words, r.req.Home)
			if to == "" {
				continue
			}
			for _, dir := range places { // without those that the loop adds
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

// destination is the directory that a cd changes to, as written; it may be relative.
// Empty if the words are no cd, or the directory is not known.
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
		case w.Static && w.Text == "-": // the previous directory
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
