package policy

import "io/fs"

// Parts returns the simple commands of text that a shell reads, in the order in
// which they are found: those in substitutions, functions and the text of
// shells inside too, and behind a wrapper first the wrapper and then what it
// runs. No file is looked at, so that they have no paths.
//
// Something that hides which programs run is a finding of which Hides says so.
func Parts(text, shell string) ([]Segment, []Finding) {
	r := read(Request{Command: text, Shell: []string{shell}, Dir: "/"}, nothing{})
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

// nothing is a file system without files.
type nothing struct{}

func (nothing) Stat(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }
func (nothing) RealPath(string) (string, error)  { return "", fs.ErrNotExist }
func (nothing) Executable(string) error          { return fs.ErrNotExist }
func (nothing) Open(string) (fs.File, error)     { return nil, fs.ErrNotExist }
