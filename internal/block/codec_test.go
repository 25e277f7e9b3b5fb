package block

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

var someID = posix.MakeBlockID(1, 2, 3)

func TestRecordRoundTrip(t *testing.T) {
	r := record{id: someID, length: 70000, crc: 0xdeadbeef}
	b := r.encode()
	require.Equal(t, "47424b31"+"00010000000000020000000000000003"+"70110100"+"efbeadde", fmt.Sprintf("%x", b[:28]), "the bytes are for ever")
	got, ok := decodeRecord(&b)
	require.True(t, ok)
	require.Equal(t, r, got)
	for i := range b {
		b[i] ^= 4
		_, ok := decodeRecord(&b)
		require.False(t, ok, "byte %d", i)
		b[i] ^= 4
	}
}

func TestEntryRoundTrip(t *testing.T) {
	for _, e := range []entry{
		{crc: 7, inline: []byte("x")},
		{crc: 7, length: MaxSize, at: place{segment: 1<<32 - 1, offset: 1 << 40}},
	} {
		got, err := decodeEntry(e.append(nil))
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
	p, version, err := decodeFrontier(appendFrontier(nil, place{segment: 9, offset: 1 << 33}))
	require.NoError(t, err)
	require.EqualValues(t, frontierVersion, version)
	require.Equal(t, place{segment: 9, offset: 1 << 33}, p)
	for name, b := range map[string][]byte{
		"empty":        {},
		"kind":         {3, 0, 0, 0, 0, 1},
		"no bytes":     {kindInline, 0, 0, 0, 0},
		"length 0":     {kindSegment, 0, 0, 0, 0, 1, 1, 0},
		"left over":    {kindSegment, 0, 0, 0, 0, 1, 1, 1, 1},
		"cut checksum": {kindInline, 0, 0},
	} {
		_, err := decodeEntry(b)
		require.Error(t, err, name)
	}
	_, version, err = decodeFrontier([]byte{1, 0, 0})
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
	u, err := parseUsage(usage{bytes: 1 << 40, blocks: 3}.append(nil))
	require.NoError(t, err)
	require.Equal(t, usage{bytes: 1 << 40, blocks: 3}, u)
	_, err = parseUsage([]byte{1})
	require.Error(t, err)
	_, _, err = decodeFrontier([]byte{3, 0, 0})
	require.Error(t, err, "a version to come")
}

func FuzzEntry(f *testing.F) {
	for _, e := range []entry{{inline: []byte("abc")}, {length: 5, at: place{segment: 3, offset: 4}}} {
		f.Add(e.append(nil))
	}
	f.Add(appendFrontier(nil, place{segment: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEntry(b); err == nil {
			again, err := decodeEntry(e.append(nil))
			require.NoError(t, err)
			require.Equal(t, e, again)
		}
		if p, _, err := decodeFrontier(b); err == nil {
			again, _, err := decodeFrontier(appendFrontier(nil, p))
			require.NoError(t, err)
			require.Equal(t, p, again)
		}
	})
}

func FuzzRecord(f *testing.F) {
	r := record{id: someID, length: 3, crc: Sum(someID, []byte("abc"))}
	header := r.encode()
	f.Add(append(header[:], "abc"...))
	f.Add(append([]byte{'G', 'B', 'K'}, append(header[:], "abc..."...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := scanner{file: bytes.NewReader(b), size: uint64(len(b))}
		for {
			before := in.at
			r, at, ok, err := in.next()
			require.NoError(t, err)
			if !ok {
				break
			}
			require.GreaterOrEqual(t, at, before)
			data, good, err := in.content(&r, at)
			require.NoError(t, err)
			require.Equal(t, Sum(r.id, data) == r.crc, good)
			header := r.encode()
			require.Equal(t, b[at:in.at], append(header[:], data...))
		}
	})
}

// replyBlock is the reply with a block.
func replyBlock(id ID, data []byte) []byte { return replyIn(nil, id, data) }

// put is the request that puts someID.
func put(data []byte) []byte {
	b := New(someID, data)
	return b.Frame()
}

func TestRequestRoundTrip(t *testing.T) {
	b := New(someID, []byte("content"))
	want := Block{ID: someID, Sum: Sum(someID, b.Data), Data: []byte("content")}
	for o, encoded := range map[op][]byte{opPut: b.Frame(), opStore: encodeStore(&b)} {
		q, err := decodeRequest(encoded)
		require.NoError(t, err)
		require.Equal(t, request{op: o, block: want}, q)
		require.Equal(t, "00010000000000020000000000000003"+"6ba237fb"+"636f6e74656e74", fmt.Sprintf("%x", encoded[1:]), "the bytes are for ever")
	}
	require.Equal(t, b.Frame(), want.Frame(), "made anew")
	q, err := decodeRequest(encodeGet(opFetch, someID))
	require.NoError(t, err)
	require.Equal(t, request{op: opFetch, id: someID}, q)
	q, err = decodeRequest(encodeDelete(opDrop, []ID{someID, LastID}))
	require.NoError(t, err)
	require.Equal(t, request{op: opDrop, ids: []ID{someID, LastID}}, q)
	q, err = decodeRequest(encodeSizes([]ID{someID, LastID}))
	require.NoError(t, err)
	require.Equal(t, request{op: opSizes, ids: []ID{someID, LastID}}, q)
	sizes, err := decodeSizes(2, replySizes([]uint32{7, MaxSize}))
	require.NoError(t, err)
	require.Equal(t, []uint32{7, MaxSize}, sizes)
	_, err = decodeSizes(3, replySizes(sizes))
	require.Error(t, err)
	_, err = decodeSizes(1, replySizes([]uint32{MaxSize + 1}))
	require.Error(t, err)
	q, err = decodeRequest(encodeList(someID, LastID))
	require.NoError(t, err)
	require.Equal(t, request{op: opList, from: someID, to: LastID}, q)

	for name, b := range map[string][]byte{
		"empty":          {},
		"operation":      {byte(opEnd)},
		"no data":        put(nil),
		"too large":      put(make([]byte, MaxSize+1)),
		"cut id":         encodeGet(opGet, someID)[:9],
		"left over":      append(encodeGet(opGet, someID), 0),
		"forged count":   {byte(opDelete), 200, 1, 1, 2, 3},
		"too many sizes": encodeSizes(make([]ID, maxSizes+1)),
		"too many ids":   encodeDelete(opDelete, make([]ID, maxIDs+1)),
	} {
		_, err := decodeRequest(b)
		require.Error(t, err, name)
	}
}

func TestReplyErrors(t *testing.T) {
	for _, kind := range kinds[1:] {
		err := replyErr(replyError(fmt.Errorf("server 3: %w", kind)))
		require.ErrorIs(t, err, kind)
		require.EqualError(t, err, "server 3: "+kind.Error())
	}
	require.ErrorIs(t, replyErr(replyError(&CorruptError{ID: someID})), ErrCorrupt)
	require.ErrorIs(t, replyErr(replyError(errors.New("disk on fire"))), errFailed)
	require.Error(t, replyErr(nil))
	require.Error(t, replyErr([]byte{byte(codeEnd)}))
	require.Len(t, replyError(errors.New(string(make([]byte, 1<<20)))), 1+maxText)
}

func TestBlockDamagedOnTheWire(t *testing.T) {
	reply := replyBlock(someID, []byte("content"))
	b, err := decodeBlock(someID, reply)
	require.NoError(t, err)
	require.Equal(t, New(someID, []byte("content")).Data, b.Data)
	_, err = decodeBlock(LastID, reply)
	require.ErrorIs(t, err, ErrCorrupt, "the bytes of another block")
	reply[len(reply)-1] ^= 1
	_, err = decodeBlock(someID, reply)
	require.ErrorIs(t, err, ErrCorrupt)
}

func FuzzRequest(f *testing.F) {
	f.Add(put([]byte("content")))
	f.Add(encodeGet(opGet, someID))
	f.Add(encodeDelete(opDelete, []ID{someID, LastID}))
	f.Add(encodeList(someID, LastID))
	f.Add(encodeSizes([]ID{someID}))
	f.Add([]byte{byte(opUsage)})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err == nil && (len(q.block.Data) > MaxSize || len(q.ids) > maxIDs) {
			t.Errorf("%d bytes, %d ids", len(q.block.Data), len(q.ids))
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(replyBlock(someID, []byte("content")))
	f.Add(replyIDs([]ID{someID}, true))
	f.Add(replyUsage(1<<40, 3))
	f.Add(replyError(ErrNotFound))
	f.Fuzz(func(t *testing.T, b []byte) {
		if replyErr(b) != nil {
			return
		}
		if found, err := decodeBlock(someID, b); err == nil {
			require.Equal(t, b, replyBlock(someID, found.Data))
		}
		if ids, more, err := decodeIDs(b); err == nil {
			again, moreAgain, err := decodeIDs(replyIDs(ids, more))
			require.NoError(t, err)
			require.Equal(t, ids, again)
			require.Equal(t, more, moreAgain)
		}
		_, _, _ = decodeUsage(b)
	})
}
