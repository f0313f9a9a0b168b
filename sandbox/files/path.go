package files

import (
	"encoding/base64"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

const (
	maxPath    = 4096 // PATH_MAX
	maxElement = 255  // NAME_MAX
)

// Clean is the absolute path of a name in a sandbox whose workspace is at root:
// without "." and "..".
func Clean(root, name string) (string, error) {
	switch {
	case name == "":
		return "", corral.Errorf(corral.ErrInvalid, "name a file, or . for the workspace", "an empty path was given")
	case len(name) > maxPath:
		return "", corral.Errorf(corral.ErrInvalid, "", "a path of %d bytes is too long: %d are allowed", len(name), maxPath)
	case strings.IndexByte(name, 0) >= 0:
		return "", corral.Errorf(corral.ErrInvalid, "", "the path %q has a NUL byte in it", name)
	}
	if !path.IsAbs(name) {
		name = root + "/" + name
	}
	name = path.Clean(name)
	for e := range strings.SplitSeq(name, "/") {
		if len(e) > maxElement {
			return "", corral.Errorf(corral.ErrInvalid, "", "the path %s has an element of %d bytes: %d are allowed", show(name), len(e), maxElement)
		}
	}
	return name, nil
}

// below is the path of name from root on, "." for root itself; both are clean.
func below(root, name string) (rel string, ok bool) {
	if name == root {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
}

// show is a name as it can stand in a message.
func show(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

// cursor is a name as a ListOptions.After.
func cursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func parseCursor(after string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil || len(name) > maxElement {
		return "", corral.Errorf(corral.ErrInvalid, "give what the page before says, or nothing", "%.40q is not the end of a page", after)
	}
	return string(name), nil
}

// A pager keeps the names of a page out of many.
type pager struct {
	after string
	limit int
	names []string // sorted, at most limit+1
}

func newPager(o ListOptions) (*pager, error) {
	after, err := parseCursor(o.After)
	if err != nil {
		return nil, err
	}
	p := &pager{after: after, limit: o.Limit}
	if p.limit <= 0 {
		p.limit = DefaultPage
	}
	p.limit = min(p.limit, MaxPage)
	return p, nil
}

// add takes a name in, if it belongs to the page as far as is known. The names
// beyond are cut off now and then: that costs less than to keep order always.
func (p *pager) add(name string) {
	if name <= p.after && p.after != "" {
		return
	}
	p.names = append(p.names, name)
	if len(p.names) >= 4*(p.limit+1) {
		p.cut()
	}
}

func (p *pager) cut() {
	slices.Sort(p.names)
	p.names = p.names[:min(len(p.names), p.limit+1)]
}

// page are the names, and where the next page begins.
func (p *pager) page() (names []string, next string) {
	p.cut()
	if len(p.names) <= p.limit {
		return p.names, ""
	}
	names = p.names[:p.limit]
	return names, cursor(names[len(names)-1])
}
