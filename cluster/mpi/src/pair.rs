//! Sends and receives of a group. Each transfer is a header and then its data, with tags of their own.
//!
//! ```text
//!  sender:    part begins ──► header (state, length, type, place) ──► data ──► complete
//!  receiver:  announced ──► header ──► part begins ──► data ──► complete
//!                             └─ another length or type, or the sender's part failed ──► fail
//! ```

use std::collections::VecDeque;
use std::ffi::c_int;

use millstream::{Failure, FailureRef, Reason, Remote};
use millstream_cluster::{Announcement, Operation};
use mpi::ffi;

use crate::check::{TEXT_BYTES, describe_with_place, hash, read_text, write_text};
use crate::raw::{Comm, MpiError, Request, call, leak};
use crate::running::Outcome;
use crate::waiting::Waiting;

/// The bytes of a header: what was called, and a text.
const HEADER_BYTES: usize = 24 + TEXT_BYTES;

/// The sends and receives of a group.
pub(crate) struct Pairs {
    comm: Comm,
    rank: usize,
    lanes: Vec<Lane>,
}

/// The transfers from a device of one rank to a device of another; this rank is one of them. They begin one after the
/// other, since the group has one stream for them; so only the first is polled, and their messages have the same tags.
struct Lane {
    sends: bool,
    /// The members that send and receive.
    members: (usize, usize),
    /// In the order of their tickets.
    calls: VecDeque<Transfer>,
}

struct Transfer {
    ticket: u64,
    call: Announcement,
    /// The other rank.
    peer: usize,
    sends: bool,
    /// The tag of the header; that of the data follows.
    tag: u32,
    part: Option<Outcome>,
    header: Box<[u8; HEADER_BYTES]>,
    stage: Stage,
    /// Takes the data if the part cannot.
    sink: Vec<u64>,
}

enum Stage {
    /// A send waits for its part; a receive has not asked for its header.
    Announced,
    /// The header of a receive travels.
    Header(Request),
    /// The header has arrived, and the part has not begun.
    Expected,
    /// The data travels; of a send the header, too. With a failure the part ends with it.
    Data(Vec<Request>, Option<FailureRef>),
}

impl Pairs {
    pub(crate) fn new(comm: Comm, rank: usize) -> Self {
        Self {
            comm,
            rank,
            lanes: Vec::new(),
        }
    }

    pub(crate) fn announce(&mut self, ticket: u64, call: Announcement) {
        let (members, sends) = match call.operation {
            Operation::Send { from, to } => ((from, to), true),
            Operation::Receive { from, to } => ((from, to), false),
            _ => return,
        };
        let (from, to) = members;
        let devices = call.devices;
        let tag = 2 * (from % devices * devices + to % devices);
        self.lane(sends, members).calls.push_back(Transfer {
            ticket,
            call,
            peer: if sends { to } else { from } / devices,
            sends,
            tag: tag as u32,
            part: None,
            header: Box::new([0; HEADER_BYTES]),
            stage: Stage::Announced,
            sink: Vec::new(),
        });
    }

    fn lane(&mut self, sends: bool, members: (usize, usize)) -> &mut Lane {
        let is_it = |lane: &Lane| (lane.sends, lane.members) == (sends, members);
        let index = self.lanes.iter().position(is_it).unwrap_or_else(|| {
            self.lanes.push(Lane {
                sends,
                members,
                calls: VecDeque::new(),
            });
            self.lanes.len() - 1
        });
        &mut self.lanes[index]
    }

    /// Adds the part of a call. Returns it if there is no such call.
    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) -> Option<Outcome> {
        for lane in &mut self.lanes {
            if let Ok(index) = lane.calls.binary_search_by_key(&ticket, |call| call.ticket) {
                lane.calls[index].part = Some(part);
                return None;
            }
        }
        Some(part)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        let flies = |call: &Transfer| matches!(call.stage, Stage::Header(_) | Stage::Data(..));
        let mut first = self.lanes.iter().filter_map(|lane| lane.calls.front());
        first.any(flies)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.calls.is_empty())
    }

    /// Goes on as far as possible. Returns `true` if anything changed.
    pub(crate) fn step(&mut self) -> Result<bool, MpiError> {
        let mut changed = false;
        for lane in &mut self.lanes {
            while let Some(call) = lane.calls.front_mut() {
                match call.step(self.comm, self.rank)? {
                    Step::Waits => break,
                    Step::Changed => {}
                    Step::Done => drop(lane.calls.pop_front()),
                }
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Returns the transfers that are not over and that no other one of their direction and peer holds back.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let first = self.lanes.iter().filter_map(|lane| lane.calls.front());
        first.map(Transfer::waiting)
    }

    pub(crate) fn have_ended(&mut self) -> bool {
        let mut ended = true;
        for call in self
            .lanes
            .iter_mut()
            .filter_map(|lane| lane.calls.front_mut())
        {
            let requests = match &mut call.stage {
                Stage::Header(request) => std::slice::from_mut(request),
                Stage::Data(requests, _) => &mut requests[..],
                Stage::Announced | Stage::Expected => &mut [],
            };
            for request in requests {
                ended &= request.has_completed().unwrap_or(true);
            }
        }
        ended
    }

    /// Fails all calls. Only after [`Pairs::have_ended`].
    pub(crate) fn fail_all(&mut self, cause: &FailureRef) {
        let calls = self.lanes.iter_mut().flat_map(|lane| lane.calls.drain(..));
        for mut call in calls {
            if !call.is_in_flight()
                && let Some(Ok(part)) = call.part.take()
            {
                part.fail_by(cause.clone());
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Waits,
    Changed,
    Done,
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.is_in_flight() {
            let header = std::mem::replace(&mut self.header, Box::new([0; HEADER_BYTES]));
            leak((header, self.part.take(), std::mem::take(&mut self.sink)));
        }
    }
}

impl Transfer {
    /// Whether MPI may still access its memory.
    fn is_in_flight(&self) -> bool {
        match &self.stage {
            Stage::Header(request) => request.is_in_flight(),
            Stage::Data(requests, _) => requests.iter().any(Request::is_in_flight),
            Stage::Announced | Stage::Expected => false,
        }
    }

    fn waiting(&self) -> Waiting {
        let Announcement { name, place, .. } = self.call;
        let (call, peer) = (&self.call, self.peer);
        let direction = if self.sends { "to" } else { "from" };
        let waits_for_peer = match self.stage {
            Stage::Header(_) => true,
            Stage::Data(..) => self.sends,
            Stage::Announced | Stage::Expected => false,
        };
        Waiting {
            call: format!("`{name}` of {call} {direction} rank {peer} at {place}"),
            is_ready: self.part.is_some(),
            missing: waits_for_peer.then_some(peer).into_iter().collect(),
        }
    }

    fn step(&mut self, comm: Comm, rank: usize) -> Result<Step, MpiError> {
        match &mut self.stage {
            Stage::Announced if self.sends => match self.part {
                Some(_) => self.start_send(comm).map(|()| Step::Changed),
                None => Ok(Step::Waits),
            },
            Stage::Announced => {
                let request = self.receive(comm, 0)?;
                self.stage = Stage::Header(request);
                Ok(Step::Changed)
            }
            Stage::Header(request) => match request.has_completed()? {
                true => {
                    self.stage = Stage::Expected;
                    Ok(Step::Changed)
                }
                false => Ok(Step::Waits),
            },
            Stage::Expected => match self.part {
                Some(_) => self.start_receive(comm, rank).map(|()| Step::Changed),
                None => Ok(Step::Waits),
            },
            Stage::Data(requests, failure) => {
                for request in requests {
                    if !request.has_completed()? {
                        return Ok(Step::Waits);
                    }
                }
                match (self.part.take(), failure.take()) {
                    (Some(Ok(part)), Some(failure)) => part.fail_by(failure),
                    (Some(Ok(part)), None) => part.complete(),
                    _ => {}
                }
                Ok(Step::Done)
            }
        }
    }

    fn tag(&self, message: u32) -> c_int {
        (self.tag + message) as c_int
    }

    /// Receives to the header.
    fn receive(&mut self, comm: Comm, message: u32) -> Result<Request, MpiError> {
        let (tag, peer) = (self.tag(message), self.peer as c_int);
        Request::start(|request| {
            // SAFETY: `self` keeps the header until the request has completed.
            unsafe {
                call!(MPI_Irecv(
                    self.header.as_mut_ptr().cast(),
                    HEADER_BYTES as c_int,
                    ffi::RSMPI_UINT8_T,
                    peer,
                    tag,
                    comm.0,
                    request,
                ))
            }
        })
    }

    /// Sends the header, and the data unless the part has failed.
    fn start_send(&mut self, comm: Comm) -> Result<(), MpiError> {
        if let Some(why) = self.problem() {
            let cause = Failure::not_run(&self.call.name.into(), Reason::Refused(why));
            if let Some(Ok(part)) = self.part.replace(Err(cause.clone())) {
                part.fail_by(cause);
            }
        }
        let (state, text) = match &self.part {
            Some(Err(failure)) => (1_u64, failure.to_string()),
            _ => (0, describe_with_place(&self.call)),
        };
        let bytes = self.bytes() as u64;
        self.header[..8].copy_from_slice(&state.to_ne_bytes());
        self.header[8..16].copy_from_slice(&bytes.to_ne_bytes());
        self.header[16..24].copy_from_slice(&hash(self.call).to_ne_bytes());
        write_text(&text, &mut self.header[24..]);
        let header = (self.header.as_ptr(), HEADER_BYTES);
        // Stored at once: MPI reads the header from now on.
        self.stage = Stage::Data(vec![self.send(comm, 0, header)?], None);
        if let Some(Ok(part)) = &mut self.part
            && let Ok(memory) = part.memory()
        {
            let data = memory.input.unwrap_or_default();
            let data = (data.as_ptr(), data.len());
            let request = self.send(comm, 1, data)?;
            if let Stage::Data(requests, _) = &mut self.stage {
                requests.push(request);
            }
        }
        Ok(())
    }

    /// Returns why the part cannot move, if it cannot.
    fn problem(&mut self) -> Option<String> {
        if c_int::try_from(self.bytes()).is_err() {
            let why = "MPI moves at most 2,147,483,647 bytes in one call; call it for parts";
            return Some(why.to_owned());
        }
        match &mut self.part {
            Some(Ok(part)) => part.memory().err(),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        self.call.elements * self.call.dtype.size()
    }

    fn send(
        &self,
        comm: Comm,
        message: u32,
        (bytes, len): (*const u8, usize),
    ) -> Result<Request, MpiError> {
        Request::start(|request| {
            // SAFETY: the bytes are the header or the part, which `self` keeps until the request has completed.
            unsafe {
                call!(MPI_Isend(
                    bytes.cast(),
                    len as c_int,
                    ffi::RSMPI_UINT8_T,
                    self.peer as c_int,
                    self.tag(message),
                    comm.0,
                    request,
                ))
            }
        })
    }

    /// Receives the data that the header describes.
    fn start_receive(&mut self, comm: Comm, rank: usize) -> Result<(), MpiError> {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.header[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let (state, bytes, what) = (word(0), word(8) as usize, word(16));
        let text = read_text(&self.header[24..]);
        let name = self.call.name.into();
        if state != 0 {
            let remote = Remote::Failed {
                rank: self.peer as u32,
                message: text,
            };
            let failure = Failure::not_run(&name, Reason::Remote(remote));
            self.stage = Stage::Data(Vec::new(), Some(failure));
            return Ok(());
        }
        let differs = what != hash(self.call) || bytes != self.bytes();
        let mut failure = differs.then(|| {
            let own = describe_with_place(&self.call);
            let message = format!(
                "rank {} sends {text}, and rank {rank} receives {own}",
                self.peer
            );
            Failure::not_run(&name, Reason::Remote(Remote::Mismatch { message }))
        });
        if failure.is_none()
            && let Some(why) = self.problem()
        {
            failure = Some(Failure::not_run(&name, Reason::Refused(why)));
        }
        let target = match &mut self.part {
            Some(Ok(part)) if failure.is_none() => {
                let memory = part.memory();
                let output = memory.ok().and_then(|memory| memory.output);
                output.map(<[u8]>::as_mut_ptr)
            }
            _ => None,
        };
        let target = target.unwrap_or_else(|| {
            self.sink = vec![0; bytes.div_ceil(8)];
            self.sink.as_mut_ptr().cast()
        });
        let request = Request::start(|request| {
            // SAFETY: the part has this length, or the sink, and `self` keeps both until the request has completed.
            unsafe {
                call!(MPI_Irecv(
                    target.cast(),
                    bytes as c_int,
                    ffi::RSMPI_UINT8_T,
                    self.peer as c_int,
                    self.tag(1),
                    comm.0,
                    request,
                ))
            }
        })?;
        self.stage = Stage::Data(vec![request], failure);
        Ok(())
    }
}
