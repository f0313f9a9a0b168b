package users

import (
	"strings"
	"testing"
)

func TestAccounts(t *testing.T) {
	for _, tc := range []struct{ name, text, passwd, group string }{
		{"none", "", "sandbox:x:7:8::/workspace:/bin/sh", "sandbox:x:8:"},
		{"the owner's", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/bash\nbob:x:1000:1::/:/\n", "ann:x:7:8:Ann:/home/ann:/bin/bash", "ann:x:8:1000:Ann:/home/ann:/bin/bash"},
		{"no newline at the end", "ann:x:1000:1000:Ann:/home/ann:/bin/bash", "ann:x:7:8:Ann:/home/ann:/bin/bash", "ann:x:8:1000:Ann:/home/ann:/bin/bash"},
		{"names taken", "sandbox:x:1:1::/:/\nsandbox_:x:2:2::/:/\n", "sandbox__:x:7:8::/workspace:/bin/sh", "sandbox__:x:8:"},
		{"too short", "ann:x:1000\n:::::::\n", "sandbox:x:7:8::/workspace:/bin/sh", "sandbox:x:8:"},
	} {
		for got, want := range map[string]string{
			string(withAccount([]byte(tc.text), "", 1000, 7, 8)): tc.passwd,
			string(withGroup([]byte(tc.text), "", 1000, 8)):      tc.group,
		} {
			before := tc.text
			if before != "" {
				before = strings.TrimSuffix(before, "\n") + "\n"
			}
			if got != before+want+"\n" {
				t.Errorf("%s: %q, want %q", tc.name, got, before+want+"\n")
			}
		}
	}
}

func FuzzAccounts(f *testing.F) {
	f.Add("root:x:0:0::/:/\nann:x:1000:1000::/:/bin/sh\n")
	f.Add("a:b:1000")
	f.Fuzz(func(t *testing.T, text string) {
		for _, b := range [][]byte{withAccount([]byte(text), "", 1000, 1879048192, 1879048192), withGroup([]byte(text), "", 1000, 1879048192)} {
			if !strings.HasPrefix(string(b), text) || strings.Count(string(b[len(text):]), "\n") > 2 || accountOf(b, 1879048192) == nil {
				t.Errorf("%q becomes %q", text, b)
			}
		}
	})
}
