package pathenv

import "testing"

func TestDescribe(t *testing.T) {
	call := map[string]string{"MINE": "m", "DEPLOY_KEY_PASSPHRASE": "hush"}
	env, err := Gateway(GatewayOptions{
		Inherited: []string{"PATH=/usr/bin:/bin", "HOME=/h", "SSH_AUTH_SOCK=/s", "DB=postgres://me:hush@db/x", "GH_TOKEN=hush", "PLAIN=p", "KEY=ghp_0123456789abcdef"},
		LoginPath: "/login/bin", PathPrepend: []string{"/pre"}, Call: call,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []bool{false, true} {
		d := env.Describe(call, values)
		got := map[string]Variable{}
		for _, v := range d.Variables {
			got[v.Name] = v
			if v.Value != nil && (!values || *v.Value == "hush" || v.Secret) {
				t.Errorf("%v: the value of %s is shown: %q", values, v.Name, *v.Value)
			}
		}
		for name, want := range map[string]struct {
			origin Origin
			secret bool
		}{
			"PATH": {OriginMerged, false}, "HOME": {OriginDaemon, false}, "MINE": {OriginCall, false}, "DEPLOY_KEY_PASSPHRASE": {OriginCall, true},
			"DB": {OriginDaemon, true}, "KEY": {OriginDaemon, true}, "SSH_AUTH_SOCK": {OriginDaemon, true}, "CORRAL_SHELL": {OriginCorral, false}, "OPENCLAW_SHELL": {OriginCorral, false},
		} {
			v, ok := got[name]
			if !ok || v.Origin != want.origin || v.Secret != want.secret || (v.Value != nil) != (values && !want.secret) {
				t.Errorf("%s: %+v, %v", name, v, ok)
			}
		}
		if len(d.Path) != 4 || d.Path[0] != (PathEntry{"/pre", OriginPrepend}) || d.Path[1] != (PathEntry{"/login/bin", OriginLogin}) || d.Path[3] != (PathEntry{"/bin", OriginDaemon}) {
			t.Errorf("%+v", d.Path)
		}
		if len(d.Dropped) != 1 || d.Dropped[0].Name != "GH_TOKEN" {
			t.Errorf("%+v", d.Dropped)
		}
	}
	if d := (Environment{}).Describe(nil, true); d.Path == nil || d.Variables == nil || d.Dropped == nil {
		t.Error("JSON has null where a list is")
	}
}
