package files

import (
	"strings"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

// MaxAttributes bounds the extended attributes of a file, names and values together,
// in bytes. Linux keeps that many on every file system that has any.
const MaxAttributes = 4096

// attributeSpace is where Linux has those of users.
const attributeSpace = "user."

// maxAttribute is the length of a name, as Linux bounds it.
const maxAttribute = 255 - len(attributeSpace)

// usable is all, or nil if CheckAttributes refuses it.
func usable(all map[string]string) map[string]string {
	if CheckAttributes(all) != nil {
		return nil
	}
	return all
}

// CheckAttributes refuses what Linux would, and what JSON or an archive cannot have.
func CheckAttributes(all map[string]string) error {
	size := 0
	for name, value := range all {
		switch {
		case name == "" || len(name) > maxAttribute || strings.ContainsAny(name, "=\x00") || !utf8.ValidString(name):
			return corral.Errorf(corral.ErrInvalid, "", "%.80q is no name of an attribute: it has 1 to %d bytes of UTF-8, without =", name, maxAttribute)
		case !utf8.ValidString(value):
			return corral.Errorf(corral.ErrInvalid, "", "the attribute %.80q is not UTF-8", name)
		}
		size += len(attributeSpace) + len(name) + len(value)
	}
	if size > MaxAttributes {
		return corral.Errorf(corral.ErrInvalid, "", "the attributes have %d bytes, more than %d", size, MaxAttributes)
	}
	return nil
}
