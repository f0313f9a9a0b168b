package escape

import "testing"

func TestHostUser(t *testing.T) {
	const status = "Name:\tcat\nUid:\t1000\t1000\t1000\t1000\nGid:\t7\t7\t7\t7\nGroups:\t1"
	for output, want := range map[string]string{
		status + "\n-\n         0          0 4294967295\n-\n         0          0 4294967295\n": "1000:7",
		status + "\n-\n0 100000 65536\n-\n0 200000 10\n":                                        "101000:200007",
		status + "\n-\n0 100000 1\n1 200000 65535\n-\n7 1 1\n":                                  "200999:1",
		status + "\n-\n\n-\n\n": "1000:7",
		"":                      "",
		status:                  "",
		"Name: x\n-\n\n-\n\n":   "",
	} {
		if got, err := HostUser(output); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", output, got, err, want)
		}
	}
}
