package onesided

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// tpcc is TPC-C as an application of package heron (Heron, section IV-A): a warehouse is a partition, a row
// is an object. Items never change, so they are a function and no objects. A row that was never written has
// its initial value. Tables are smaller than in the benchmark; the numbers below give the sizes.
type tpcc struct{ accesses int }

// Sizes of the tables of a warehouse. The benchmark has 3,000 customers a district and 100,000 items.
const (
	districts = 10
	customers = 60
	items     = 2000
	orders    = 64 // of each district that are kept; an order is delivered before it is overwritten, or dropped
	rowSize   = 320
	rows      = 1 + districts*(1+customers+orders) + items
)

type table uint8

const (
	warehouseTable table = iota
	districtTable
	customerTable
	stockTable
	orderTable
)

func rowOf(g multicast.GroupID, t table, key int) heron.ObjectID {
	return heron.ObjectID(uint64(g)<<40 | uint64(t)<<32 | uint64(key) + 1)
}

// Owner implements heron.Application.
func (*tpcc) Owner(id heron.ObjectID) multicast.GroupID { return multicast.GroupID(id >> 40) }

// kind is a transaction type.
type kind uint8

const (
	newOrder kind = iota
	payment
	delivery
	orderStatus
	stockLevel
	nothing // a request that touches no object: coordination alone
	touch   // writes rows of one warehouse, for the experiments on state transfer
	kinds
)

var kindNames = [kinds]string{"new order", "payment", "delivery", "order status", "stock level", "null", "touch"}

// line is an order line.
type line struct {
	item      int
	warehouse multicast.GroupID
	quantity  int
}

// transaction is a request. The fields that a kind does not need are 0.
type transaction struct {
	kind               kind
	home               multicast.GroupID
	district, customer int
	away               multicast.GroupID // the customer's warehouse, of payment
	amount             int
	lines              []line
}

func (x *transaction) encode() []byte {
	b := []byte{byte(x.kind), byte(x.district), byte(len(x.lines))}
	le := binary.LittleEndian
	b = le.AppendUint16(le.AppendUint16(b, uint16(x.home)), uint16(x.away))
	b = le.AppendUint16(le.AppendUint32(b, uint32(x.amount)), uint16(x.customer))
	for _, l := range x.lines {
		b = append(le.AppendUint16(le.AppendUint16(b, uint16(l.item)), uint16(l.warehouse)), byte(l.quantity))
	}
	return b
}

func decodeTransaction(b []byte) (x transaction) {
	le := binary.LittleEndian
	x.kind, x.district = kind(b[0]), int(b[1])
	count := int(b[2])
	x.home, x.away = multicast.GroupID(le.Uint16(b[3:])), multicast.GroupID(le.Uint16(b[5:]))
	x.amount, x.customer = int(le.Uint32(b[7:])), int(le.Uint16(b[11:]))
	for b = b[13:]; count > 0; count-- {
		x.lines = append(x.lines, line{int(le.Uint16(b)), multicast.GroupID(le.Uint16(b[2:])), int(b[4])})
		b = b[5:]
	}
	return x
}

// groups gives the warehouses of a transaction.
func (x *transaction) groups() []multicast.GroupID {
	all := []multicast.GroupID{x.home}
	if x.kind == payment {
		all = append(all, x.away)
	}
	for _, l := range x.lines {
		all = append(all, l.warehouse)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Reads implements heron.Application: the home warehouse reads the stock rows of others for its order lines,
// and the customer of another warehouse for its history.
func (*tpcc) Reads(group multicast.GroupID, payload []byte) (ids []heron.ObjectID) {
	x := decodeTransaction(payload)
	if group != x.home {
		return nil
	}
	if x.kind == payment {
		return []heron.ObjectID{rowOf(x.away, customerTable, x.district*customers+x.customer)}
	}
	for _, l := range x.lines {
		ids = append(ids, rowOf(l.warehouse, stockTable, l.item))
	}
	return ids
}

// scene is an execution of a transaction at a warehouse. A row is a list of numbers, padded to the size of
// the benchmark's row.
type scene struct {
	app    *tpcc
	group  multicast.GroupID
	get    func(heron.ObjectID) []byte
	writes []heron.Write
}

func (s *scene) row(id heron.ObjectID, fields int) []uint32 {
	s.app.accesses++
	b := s.get(id)
	row := make([]uint32, fields)
	for i := range row {
		if len(b) >= 4*(i+1) {
			row[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
	return row
}

func (s *scene) write(id heron.ObjectID, row []uint32, size int) {
	if s.app.Owner(id) != s.group {
		return
	}
	s.app.accesses++
	b := make([]byte, max(size, 4*len(row)))
	for i, x := range row {
		binary.LittleEndian.PutUint32(b[4*i:], x)
	}
	s.writes = append(s.writes, heron.Write{ID: id, Value: b})
}

// Execute implements heron.Application. The response is a hash of what the client would get.
func (a *tpcc) Execute(group multicast.GroupID, payload []byte, get func(heron.ObjectID) []byte) ([]heron.Write, []byte) {
	x := decodeTransaction(payload)
	s := &scene{app: a, group: group, get: get}
	sum := uint32(0)
	switch x.kind {
	case newOrder:
		sum = s.newOrder(&x)
	case payment:
		sum = s.payment(&x)
	case delivery:
		sum = s.delivery(&x)
	case orderStatus:
		sum = s.orderStatus(&x)
	case stockLevel:
		sum = s.stockLevel(&x)
	case touch:
		for i := range x.amount {
			s.write(rowOf(group, stockTable, i), []uint32{uint32(x.customer)}, rowSize)
		}
	}
	return s.writes, binary.LittleEndian.AppendUint32(nil, sum)
}

// Sizes of rows in the benchmark, in bytes.
const (
	stockRow    = 306
	customerRow = 320 // 655 in the benchmark; the comment field is cut
)

// price of an item: the Item table, which is a function.
func price(item int) uint32 {
	h := fnv.New32a()
	h.Write([]byte{byte(item), byte(item >> 8)})
	return 100 + h.Sum32()%9900
}

// newOrder enters an order: the home warehouse counts it and keeps its lines, each warehouse updates its
// stock.
func (s *scene) newOrder(x *transaction) (total uint32) {
	var kept []uint32
	for _, l := range x.lines {
		id := rowOf(l.warehouse, stockTable, l.item)
		if s.group != x.home && l.warehouse != s.group {
			continue
		}
		row := s.row(id, 3) // sold, orders, remote orders; the quantity follows from sold
		kept = append(kept, uint32(l.item), uint32(l.quantity), price(l.item)*uint32(l.quantity))
		total += kept[len(kept)-1]
		if l.warehouse == s.group && !s.written(id) {
			row[0] += uint32(l.quantity)
			row[1]++
			if l.warehouse != x.home {
				row[2]++
			}
			s.write(id, row, stockRow)
		}
	}
	if s.group == x.home {
		d := rowOf(x.home, districtTable, x.district)
		row := s.row(d, 3) // next order, paid, next delivery
		number := row[0]
		row[0]++
		s.write(d, row, 0)
		head := []uint32{number, uint32(x.customer), uint32(len(x.lines))}
		s.write(rowOf(x.home, orderTable, x.district*orders+int(number%orders)), append(head, kept...), 0)
	}
	return total
}

// written: an item may be in an order twice; its row is written once.
func (s *scene) written(id heron.ObjectID) bool {
	return slices.ContainsFunc(s.writes, func(w heron.Write) bool { return w.ID == id })
}

// payment adds to the sums of the home warehouse and takes from the balance of the customer.
func (s *scene) payment(x *transaction) uint32 {
	c := rowOf(x.away, customerTable, x.district*customers+x.customer)
	row := s.row(c, 3) // paid, payments, balance of deliveries
	row[0] += uint32(x.amount)
	row[1]++
	s.write(c, row, customerRow)
	if s.group == x.home {
		for _, id := range []heron.ObjectID{rowOf(x.home, warehouseTable, 0), rowOf(x.home, districtTable, x.district)} {
			sums := s.row(id, 3)
			sums[1] += uint32(x.amount)
			s.write(id, sums, 0)
		}
	}
	return row[0]
}

// delivery delivers the oldest order of each district.
func (s *scene) delivery(x *transaction) (delivered uint32) {
	for d := range districts {
		id := rowOf(x.home, districtTable, d)
		row := s.row(id, 3)
		if row[2] == row[0] {
			continue
		}
		if row[0]-row[2] > orders {
			row[2] = row[0] - orders
		}
		order := s.row(rowOf(x.home, orderTable, d*orders+int(row[2]%orders)), 3+3*15)
		row[2]++
		s.write(id, row, 0)
		c := rowOf(x.home, customerTable, d*customers+int(order[1]))
		customer := s.row(c, 3)
		for i := range min(15, int(order[2])) {
			customer[2] += order[3+3*i+2]
		}
		s.write(c, customer, customerRow)
		delivered++
	}
	return delivered
}

// orderStatus reads a customer and the latest order of the district.
func (s *scene) orderStatus(x *transaction) uint32 {
	row := s.row(rowOf(x.home, customerTable, x.district*customers+x.customer), 3)
	d := s.row(rowOf(x.home, districtTable, x.district), 3)
	order := s.row(rowOf(x.home, orderTable, x.district*orders+int((d[0]+orders-1)%orders)), 3+3*15)
	return row[0] + row[2] + order[0]
}

// stockLevel counts the items of the latest 20 orders of a district with a low stock.
func (s *scene) stockLevel(x *transaction) (low uint32) {
	d := s.row(rowOf(x.home, districtTable, x.district), 3)
	for i := uint32(1); i <= 20 && i <= d[0]; i++ {
		order := s.row(rowOf(x.home, orderTable, x.district*orders+int((d[0]-i)%orders)), 3+3*15)
		for l := range min(15, int(order[2])) {
			stock := s.row(rowOf(x.home, stockTable, int(order[3+3*l])), 3)
			if (91-stock[0]%91)+10 < uint32(x.amount) {
				low++
			}
		}
	}
	return low
}

// draw draws a transaction of a kind. Remote: the share of remote lines of new orders and of remote payments,
// as in the benchmark (1 % and 15 %), none, or exactly span warehouses.
func draw(rng *rand.Rand, k kind, home multicast.GroupID, warehouses, span int) transaction {
	x := transaction{
		kind: k, home: home, away: home, district: rng.IntN(districts), customer: rng.IntN(customers), amount: 10 + rng.IntN(10),
	}
	other := func() multicast.GroupID {
		return multicast.GroupID((int(home) + 1 + rng.IntN(max(1, warehouses-1))) % warehouses)
	}
	switch {
	case k == payment && warehouses > 1 && (span == 0 && rng.IntN(100) < 15 || span > 1):
		x.away = other()
	case k == newOrder:
		for range 5 + rng.IntN(11) {
			l := line{item: rng.IntN(items), warehouse: home, quantity: 1 + rng.IntN(10)}
			if span == 0 && warehouses > 1 && rng.IntN(100) == 0 {
				l.warehouse = other()
			}
			x.lines = append(x.lines, l)
		}
	}
	for i := 1; i < span && k == newOrder; i++ {
		x.lines[i].warehouse = multicast.GroupID((int(home) + i) % warehouses)
	}
	return x
}

// mix draws the kind of a transaction as the benchmark does.
func mix(rng *rand.Rand) kind {
	switch n := rng.IntN(100); {
	case n < 45:
		return newOrder
	case n < 88:
		return payment
	case n < 92:
		return delivery
	case n < 96:
		return orderStatus
	}
	return stockLevel
}
