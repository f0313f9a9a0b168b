package users

import (
	"strings"
	"testing"
)

func TestAccounts(t *testing.T) {
	const accounts = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/bash\nbob:x:1000:1::/:/\n"
	for _, tc := range []struct {
		what, text, name string
		uid              int
		passwd, group    string // what the line replaced by > is
	}{
		{"none", ">", "", 7, "sandbox:x:7:8::/work:/bin/sh", "sandbox:x:8:"},
		{"the owner's", strings.Replace(accounts, "ann:", ">ann:", 1), "", 7, "ann:x:7:8:Ann:/work:/bin/bash", "ann:x:8:1000:Ann:/home/ann:/bin/bash"},
		{"the owner itself", strings.Replace(accounts, "ann:", ">ann:", 1), "", 1000, "ann:x:1000:8:Ann:/work:/bin/bash", "ann:x:8:1000:Ann:/home/ann:/bin/bash"},
		{"named", "root:x:0:0::/root:/bin/sh\n>user:x:1001:1001::/home/user:/bin/bash\nann:x:1000:1000:::\n", "user", 7, "user:x:7:8::/work:/bin/sh", "user:x:8:"},
		{"the ID of another", "root:x:0:0:::\n>eve:x:8:8:::\n", "", 8, "sandbox:x:8:8::/work:/bin/sh", "sandbox:x:8:"},
		{"no login", "daemon:x:1:1:::\n>nobody:x:1000:1000:nobody:/nonexistent:/usr/sbin/nologin\n", "", 7, "nobody:x:7:8:nobody:/work:/bin/sh", "nobody:x:8:1000:nobody:/nonexistent:/usr/sbin/nologin"},
		{"no newline at the end", "root:x:0:0:::\n>ann:x:1000:1000:Ann:/home/ann:/bin/false", "", 7, "ann:x:7:8:Ann:/work:/bin/sh", "ann:x:8:1000:Ann:/home/ann:/bin/false"},
		{"at the end", "root:x:0:0::/root:/bin/sh>", "", 7, "\nsandbox:x:7:8::/work:/bin/sh", "\nsandbox:x:8:"},
		{"names taken", "sandbox:x:1:1::/:/\nsandbox_:x:2:2::/:/\n>", "", 7, "sandbox__:x:7:8::/work:/bin/sh", "sandbox__:x:8:"},
		{"too short", "ann:x:1000\n:::::::\n>", "", 7, "sandbox:x:7:8::/work:/bin/sh", "sandbox:x:8:"},
	} {
		text, a := []byte(strings.Replace(tc.text, ">", "", 1)), Account{Name: tc.name, Home: "/work"}
		for got, line := range map[string]string{
			string(a.inPasswd(text, 1000, tc.uid, 8)): tc.passwd,
			string(a.inGroup(text, 1000, 8)):          tc.group,
		} {
			if want := strings.Replace(tc.text, ">", line+"\n", 1); got != want {
				t.Errorf("%s: %q, want %q", tc.what, got, want)
			}
		}
	}
}

func FuzzAccounts(f *testing.F) {
	f.Add("root:x:0:0::/:/\nann:x:1000:1000::/:/bin/sh\n", "")
	f.Add("a:b:1000", "user")
	f.Fuzz(func(t *testing.T, text, name string) {
		if strings.ContainsAny(name, ":\n") {
			return // no such name is asked for
		}
		const id = 1879048192
		a := Account{Name: name, Home: "/work"}
		for _, b := range [][]byte{a.inPasswd([]byte(text), 1000, id, id), a.inGroup([]byte(text), 1000, id)} {
			same := 0 // what is before the new line is as it was, and so is what is behind it
			for same < len(text) && same < len(b) && text[same] == b[same] {
				same++
			}
			if len(b) <= len(text) || !strings.HasSuffix(string(b), text[same:]) || strings.Count(string(b), "\n")-strings.Count(text, "\n") > 2 || accountOf(b, id) == nil {
				t.Errorf("%q becomes %q", text, b)
			}
		}
	})
}
