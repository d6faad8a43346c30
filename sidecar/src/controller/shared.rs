//! A controller that runs on any process, seat and connection: as a program's only one, or as one of
//! several.

use std::pin::Pin;
use std::sync::Arc;

use super::flags::{Election, Http};
use super::link::{Calls, Link, Questions};
use super::process::Program;
use super::seat::Seat;
use super::view::{Driver, View};
use crate::flags::Exit;

/// A program's work for its driver.
///
/// Created once for a process, but may begin more than once: what it has found out about API server and
/// driver stays; caches and in-memory state belong to one run.
pub trait Controller: 'static {
    /// The driver as the controller's decisions see it.
    type Driver: Driver;

    /// Its program.
    const PROGRAM: Program;

    /// `--csi-address`
    fn csi_address(&self) -> &str;

    /// Leader election, if it is on.
    fn election(&self) -> Option<&Election>;

    /// The HTTP server, if there is one.
    fn http(&self) -> Option<&Http>;

    /// Settings of its calls to the driver.
    fn calls(&self) -> Calls;

    /// Whether volumes of an in-tree plugin were moved to a driver of this name.
    fn is_migrated(driver: &str) -> bool;

    /// Settings that decisions need together with the driver.
    fn settings(&self) -> <Self::Driver as Driver>::Settings;

    /// Discovers what must be known before the driver is asked for its capabilities.
    ///
    /// # Errors
    /// How the process ends.
    fn discover(&mut self, _seat: &Seat) -> impl Future<Output = Result<(), Exit>> {
        std::future::ready(Ok(()))
    }

    /// Discovers what must be known before it leads.
    ///
    /// # Errors
    /// How the process ends.
    fn prepare(
        &mut self,
        _seat: &Seat,
        _driver: &Arc<View<Self::Driver>>,
    ) -> impl Future<Output = Result<(), Exit>> {
        std::future::ready(Ok(()))
    }

    /// Works until it must end, then finishes running attempts.
    ///
    /// # Errors
    /// How the process ends if this is its only controller.
    fn work(
        &self,
        seat: &Seat,
        driver: &Arc<View<Self::Driver>>,
    ) -> impl Future<Output = Result<(), Exit>>;

    /// Whether it can begin with this driver. Its view decides about later changes of the driver.
    ///
    /// # Errors
    /// It has nothing to do for this driver.
    fn may_begin(&self, _driver: &Self::Driver) -> Result<(), Exit> {
        Ok(())
    }

    /// The capabilities that the link must ask the driver for.
    fn questions(&self) -> Questions {
        Questions::of::<Self::Driver>(&self.settings())
    }

    /// Its view of the driver behind `link`.
    ///
    /// # Errors
    /// It has nothing to do for such a driver.
    fn view(&self, link: &Arc<Link>, seat: &Seat) -> Result<Arc<View<Self::Driver>>, Exit> {
        let whose = (seat.fence.clone(), seat.name_among_others());
        let view = View::new(Arc::clone(link), self.calls(), self.settings(), whose)?;
        self.may_begin(&view.current())?;
        Ok(view)
    }
}

/// A controller's work, until it ends.
pub type Working<'a> = Pin<Box<dyn Future<Output = Result<(), Exit>> + 'a>>;

/// A [`Controller`] of any type.
pub trait AnyController {
    /// Its program.
    fn program(&self) -> Program;

    /// As [`Controller::csi_address`].
    fn csi_address(&self) -> &str;

    /// As [`Controller::election`].
    fn election(&self) -> Option<&Election>;

    /// As [`Controller::http`].
    fn http(&self) -> Option<&Http>;

    /// As [`Controller::calls`].
    fn calls(&self) -> Calls;

    /// As [`Controller::is_migrated`].
    fn is_migrated(&self, driver: &str) -> bool;

    /// As [`Controller::questions`].
    fn questions(&self) -> Questions;

    /// As [`Controller::discover`].
    fn discover<'a>(&'a mut self, seat: &'a Seat) -> Working<'a>;

    /// As [`Controller::prepare`].
    ///
    /// # Errors
    /// It has nothing to do for such a driver.
    fn prepare<'a>(&'a mut self, seat: &'a Seat, link: &Arc<Link>) -> Result<Working<'a>, Exit>;

    /// As [`Controller::work`]; starts with the first poll.
    ///
    /// # Errors
    /// It has nothing to do for such a driver.
    fn begin(self: Arc<Self>, seat: Seat, link: &Arc<Link>) -> Result<Working<'static>, Exit>;
}

impl<C: Controller> AnyController for C {
    fn program(&self) -> Program {
        C::PROGRAM
    }

    fn csi_address(&self) -> &str {
        Controller::csi_address(self)
    }

    fn election(&self) -> Option<&Election> {
        Controller::election(self)
    }

    fn http(&self) -> Option<&Http> {
        Controller::http(self)
    }

    fn calls(&self) -> Calls {
        Controller::calls(self)
    }

    fn is_migrated(&self, driver: &str) -> bool {
        C::is_migrated(driver)
    }

    fn questions(&self) -> Questions {
        Controller::questions(self)
    }

    fn discover<'a>(&'a mut self, seat: &'a Seat) -> Working<'a> {
        Box::pin(Controller::discover(self, seat))
    }

    fn prepare<'a>(&'a mut self, seat: &'a Seat, link: &Arc<Link>) -> Result<Working<'a>, Exit> {
        let view = self.view(link, seat)?;
        Ok(Box::pin(async move {
            Controller::prepare(self, seat, &view).await
        }))
    }

    fn begin(self: Arc<Self>, seat: Seat, link: &Arc<Link>) -> Result<Working<'static>, Exit> {
        let view = self.view(link, &seat)?;
        Ok(Box::pin(async move { self.work(&seat, &view).await }))
    }
}
