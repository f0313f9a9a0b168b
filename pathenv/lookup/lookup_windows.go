package lookup

import "strings"

func hasSlash(name string) bool { return strings.ContainsAny(name, `/\`) }

func isAbs(file string) bool {
	return strings.HasPrefix(file, `\`) || strings.HasPrefix(file, "/") || len(file) > 1 && file[1] == ':'
}

// extensions make a file a program; a name may leave them out.
var extensions = []string{".com", ".exe", ".bat", ".cmd"}

func executable(file string) (string, error) {
	lower := strings.ToLower(file)
	for _, ext := range extensions {
		if strings.HasSuffix(lower, ext) {
			_, err := regular(file)
			return file, err
		}
	}
	for _, ext := range extensions {
		if _, err := regular(file + ext); err == nil {
			return file + ext, nil
		}
	}
	if _, err := regular(file); err != nil {
		return "", err
	}
	return "", ErrNotExecutable
}
