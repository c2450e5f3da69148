//! Copies from and to memory that another runtime owns, such as an array of Python: no copy on the host is made.

use std::sync::Arc;

use millstream_protocol::{Access, Error, HostBytes, Landed, Landing, Stored};
use smallvec::smallvec;

use crate::copies::{Upload, copy_in, same_length};
use crate::handle::Handle;
use crate::{Finish, Pending, Returned, Stream};

impl Stream {
    /// Allocates a slice and uploads `data` to it without a copy on the host. `data` is dropped after the upload, on a
    /// thread of the runtime. May block as [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::create`]. The error carries `data`, which was not taken: [`Returned`].
    pub fn create_from<H: HostBytes>(&self, data: H) -> Result<Handle<u8>, Returned<H>> {
        self.create_with(data)
    }

    /// Creates a slice from bytes that are whole elements of `T`.
    pub(crate) fn create_with<T: Stored, H: HostBytes>(
        &self,
        data: H,
    ) -> Result<Handle<T>, Returned<H>> {
        let mut upload = Upload::new(data);
        let prepared = self.room_for(2).and_then(|room| {
            let bytes = upload.len();
            let permit = || self.upload_permit(bytes);
            let len = bytes / size_of::<T>();
            let (slice, permit) = self.slice_for_upload::<T, _>(len, permit)?;
            Ok((room, permit, slice))
        });
        let (room, permit, slice) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(given_back(upload, error)),
        };
        upload.keep(permit);
        let target = slice.binding();
        self.submit_two(room, slice, upload, copy_in, |task| {
            task.push_binding(target);
        })
        .map(|hold| Handle::new(hold, target.len))
        .map_err(|returned| returned.map(Upload::into_data))
    }

    /// Overwrites `target` with `data`, which must have the same length, without a copy on the host. `data` is dropped
    /// after the upload, on a thread of the runtime. May block as [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::write`]. The error carries `data`, which was not taken: [`Returned`].
    pub fn write_from<H: HostBytes>(
        &self,
        target: &Handle<u8>,
        data: H,
    ) -> Result<(), Returned<H>> {
        let mut upload = Upload::new(data);
        let fits = self
            .check_handle(target)
            .and_then(|()| same_length("write", upload.len() as u64, target.size()));
        match fits.and_then(|()| self.upload_permit(upload.len())) {
            Ok(permit) => {
                upload.keep(permit);
                self.send_upload(upload, target)
            }
            Err(error) => Err(given_back(upload, error)),
        }
    }

    fn send_upload<H: HostBytes>(
        &self,
        upload: Upload<H>,
        target: &Handle<u8>,
    ) -> Result<(), Returned<H>> {
        let target = target.binding(Access::Write);
        let sent = self.submit_value(upload, copy_in, |task| {
            task.push_binding(target);
        });
        sent.map_err(|returned| returned.map(Upload::into_data))
    }

    /// Reads the bytes of `source` to a landing of the caller, after all tasks added to the stream so far. The answer
    /// is what the landing yields. May block as [`Stream::read`].
    ///
    /// # Safety
    /// The memory of the landing's target is valid for writes until the landing is dropped, and nothing else accesses
    /// it before the answer has arrived, or, if the answer is dropped, before the landing is.
    pub unsafe fn read_to_landing<V, L>(&self, source: &Handle<u8>, landing: Arc<L>) -> Pending<V>
    where
        V: Send + 'static,
        L: Landing + Landed<V>,
    {
        let (_, bytes) = landing.target();
        let finish = Finish::Landed(landing.clone());
        same_length("read", source.size(), bytes as u64)
            .and_then(|()| {
                self.copy_out(
                    &[(source, None)],
                    smallvec![landing as Arc<dyn Landing>],
                    None,
                    finish,
                )
            })
            .unwrap_or_else(|error| Pending::failed(self.requester(), error))
    }
}

/// Returns the error of a call together with the value that it did not take.
fn given_back<H: HostBytes>(upload: Upload<H>, error: Error) -> Returned<H> {
    Returned {
        value: upload.into_data(),
        error,
    }
}
