package policy

import "io/fs"

// Parts returns the simple commands of a shell's text, in the order in which they are
// found. It includes those in substitutions, functions and the text of inner shells. A
// wrapper comes before the command that it runs. Parts looks at no file, so segments
// have no paths.
//
// A finding whose Hides is true hides which programs run.
func Parts(text, shell string) ([]Segment, []Finding) {
	r := read(Request{Command: text, Shell: []string{shell}, Dir: "/"}, Nothing{})
	var parts []Segment
	for _, c := range r.calls {
		for _, seg := range c.segments {
			parts = append(parts, *seg)
		}
		if c.unknown != "" {
			r.found = append(r.found, Finding{Kind: Expansion, Text: c.text, Offset: c.offset, Reason: c.unknown, unknown: true})
		}
	}
	return parts, r.found
}

// Hides reports whether the finding hides which programs run.
func (f Finding) Hides() bool { return f.unknown }

// Nothing is a View without files, for a command on a machine whose files cannot be
// seen.
type Nothing struct{}

// Stat implements View.
func (Nothing) Stat(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

// RealPath implements View.
func (Nothing) RealPath(string) (string, error) { return "", fs.ErrNotExist }

// Executable implements View.
func (Nothing) Executable(string) error { return fs.ErrNotExist }

// Open implements View.
func (Nothing) Open(string) (fs.File, error) { return nil, fs.ErrNotExist }
