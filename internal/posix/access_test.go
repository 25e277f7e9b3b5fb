package posix

import "testing"

// person is a user with groups, as POSIX sees it.
type person struct {
	uid    uint32
	groups []uint32
}

// allowed is the rule of POSIX, bit by bit: the first class of the person counts.
func (p *person) allowed(n *Attr, want Access) bool {
	class := uint(0)
	for _, g := range p.groups {
		if g == n.GID {
			class = 3
		}
	}
	if p.uid == n.UID {
		class = 6
	}
	for bit := Access(1); bit <= Read; bit <<= 1 {
		if want&bit != 0 && uint32(n.Mode)>>class&uint32(bit) == 0 {
			return false
		}
	}
	return true
}

// people gives all persons that could be behind a client: each of the users, with all sets of the groups of a
// beside the named ones.
func people(a *Authority, users []uint32, with ...uint32) (all []person) {
	groups := []uint32{NobodyID}
	for _, id := range ids {
		if within(a.GIDs, id) {
			groups = append(groups, id)
		}
	}
	for _, uid := range users {
		for set := range 1 << len(groups) {
			p := person{uid: uid, groups: with}
			for i, g := range groups {
				if set>>i&1 != 0 {
					p.groups = append(p.groups[:len(p.groups):len(p.groups)], g)
				}
			}
			all = append(all, p)
		}
	}
	return all
}

var ids = []uint32{1, 2, 3, NobodyID}

func authority(t *testing.T, uids, gids string) *Authority {
	t.Helper()
	u, err := ParseIDs(uids)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseIDs(gids)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{UIDs: u, GIDs: g}
}

// A right is granted exactly if POSIX grants it to a person that may be behind the request.
func TestAccessIsThatOfPOSIX(t *testing.T) {
	for _, who := range [][2]string{{"1", "1"}, {"1-2", "2"}, {"", ""}, {"2-9", "1,3"}} {
		a := authority(t, who[0], who[1])
		users := []uint32{NobodyID}
		for _, id := range ids {
			if within(a.UIDs, id) {
				users = append(users, id)
			}
		}
		for mode := range Mode(0o1000) {
			for _, uid := range ids {
				for _, gid := range ids {
					n := &Attr{Mode: TypeRegular | mode, UID: uid, GID: gid}
					for want := Execute; want <= Read|Write|Execute; want++ {
						compare(t, a, n, want, users)
					}
				}
			}
		}
	}
}

func compare(t *testing.T, a *Authority, n *Attr, want Access, users []uint32) {
	t.Helper()
	machine := false
	for _, uid := range users {
		machine = machine || uid == n.UID
		for _, p := range people(a, []uint32{uid}) {
			machine = machine || p.allowed(n, want)
		}
		for _, gid := range ids {
			c, user := Cred{UID: uid, GID: gid}, false
			for _, p := range people(a, []uint32{uid}, gid) {
				user = user || p.allowed(n, want)
			}
			if a.May(c, n, want) != user {
				t.Fatalf("%+v as %v of %+v: %d is allowed: %t, should be %t", a, c, n, want, !user, user)
			}
		}
	}
	if a.Admits(n, want) != machine {
		t.Fatalf("%+v of %+v: %d is allowed to its machine: %t, should be %t", a, n, want, !machine, machine)
	}
}

func TestAs(t *testing.T) {
	a := authority(t, "1000-1001", "100,1000")
	for c, want := range map[Cred]Cred{
		{1000, 1000}: {1000, 1000}, {1001, 100}: {1001, 100}, {0, 0}: Nobody(), {0, 1000}: Nobody(), {0, 7}: Nobody(), Nobody(): Nobody(),
		{1000, 65534}: {1000, 65534},
	} {
		if got, code := a.As(c); code != OK || got != want {
			t.Errorf("%v became %v, %v", c, got, code)
		}
	}
	for _, c := range []Cred{{999, 1000}, {1000, 0}, {1000, 101}, {65534, 7}, {1<<32 - 1, 1000}} {
		if got, code := a.As(c); code != EPERM {
			t.Errorf("%v became %v, %v", c, got, code)
		}
	}
	for _, all := range []*Authority{nil, Everybody(), {UIDs: []IDs{{0, 0}}}} {
		for _, c := range []Cred{{0, 0}, {7, 8}} {
			if got, code := all.As(c); code != OK || got != c {
				t.Errorf("root: %v became %v, %v", c, got, code)
			}
		}
	}
}

func TestOwnersAndTheStickyBit(t *testing.T) {
	a := authority(t, "1-2", "1")
	mine, other := &Attr{UID: 1}, &Attr{UID: 3}
	c := Cred{UID: 1, GID: 1}
	if !a.Owns(c, mine) || a.Owns(c, other) || a.Owns(Cred{UID: 2, GID: 1}, mine) {
		t.Error("a user owns what is his, not what others of his machine own")
	}
	if !a.In(c, 1) || a.In(c, 2) || !a.In(Cred{UID: 1, GID: 2}, 2) {
		t.Error("he is in his group and may be in those of the machine")
	}
	sticky := &Attr{Mode: TypeDir | Sticky | 0o777, UID: 3}
	for _, test := range []struct {
		dir, n *Attr
		want   bool
	}{
		{sticky, mine, true}, {sticky, other, false}, {&Attr{Mode: TypeDir | 0o777, UID: 3}, other, true},
		{&Attr{Mode: TypeDir | Sticky, UID: 1}, other, true},
	} {
		if a.MayTake(c, test.dir, test.n) != test.want {
			t.Errorf("%+v out of %+v", test.n, test.dir)
		}
	}
	for _, all := range []*Authority{nil, Everybody()} {
		if !all.Owns(c, other) || !all.MayTake(c, sticky, other) || !all.May(c, other, Read|Write) || !all.Admits(other, Read|Write) || !all.In(c, 9) {
			t.Error("root may everything")
		}
	}
}

func TestValidate(t *testing.T) {
	many := make([]IDs, MaxRanges+1)
	for i := range many {
		many[i] = IDs{uint32(2 * i), uint32(2 * i)}
	}
	if _, err := ParseIDs(FormatIDs(many)); err == nil {
		t.Error("more ranges than an authority may have")
	}
	for _, a := range []*Authority{nil, {}, Everybody(), {UIDs: []IDs{{1, 2}, {4, 4}}}, {GIDs: many[:MaxRanges]}} {
		if err := a.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, a := range []*Authority{{UIDs: []IDs{{2, 1}}}, {UIDs: []IDs{{1, 2}, {2, 3}}}, {GIDs: []IDs{{4, 4}, {1, 2}}}, {UIDs: many}} {
		if a.Validate() == nil {
			t.Errorf("%+v", a)
		}
	}
}
